use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the bodies of waiting requests may take up in memory.
#[derive(Clone)]
pub(super) struct BufferBudget {
    /// `max_buffered_bytes`.
    pub(super) limit: usize,
    /// The limit, less what the bodies take up.
    left: Arc<AtomicUsize>,
}

impl BufferBudget {
    pub(super) fn new(max_buffered_bytes: usize) -> Self {
        Self { limit: max_buffered_bytes, left: Arc::new(AtomicUsize::new(max_buffered_bytes)) }
    }

    pub(super) fn account(&self) -> BufferedBytes {
        BufferedBytes { budget: self.clone(), taken: 0 }
    }
}

/// The bytes of one request body that count against `max_buffered_bytes`. Dropping it gives them back.
///
/// Not public API: `lock-axum` counts with it. It is here because the limit is the manager's.
pub struct BufferedBytes {
    budget: BufferBudget,
    taken: usize,
}

impl BufferedBytes {
    /// Takes more bytes. Returns false, and takes none, if that many are not left.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        // Nothing but the number itself is shared between threads.
        let less = |left: usize| left.checked_sub(bytes);
        let taken = self.budget.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.taken += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for BufferedBytes {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_share_the_limit_and_give_back_what_they_took() {
        let budget = BufferBudget::new(10);
        let (mut one, mut other) = (budget.account(), budget.account());
        assert!(one.take(4) && one.take(2) && other.take(3));
        assert!(!one.take(2) && !other.take(usize::MAX), "one byte is left");
        assert!(other.take(1) && !other.take(1) && one.take(0));
        drop(one);
        assert!(!other.take(7) && other.take(6));
        drop(other);
        assert!(budget.account().take(10));
    }
}
