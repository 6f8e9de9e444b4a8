use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that a layer and its clones log once, and not for each request.
#[derive(Clone, Default)]
pub(crate) struct LogOnce(Arc<AtomicBool>);

impl LogOnce {
    /// Whether this is the first call.
    pub(crate) fn is_first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}
