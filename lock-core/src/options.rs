use std::sync::Arc;
use std::time::Duration;

use crate::kind::Kind;

/// The template of locks that have none: `other`.
pub const OTHER: &str = "other";

/// How a lock is acquired and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) renew: bool,
    pub(crate) kind: Kind,
    /// What observers and spans are told instead of the resource.
    pub(crate) template: Option<Arc<str>>,
    /// Whether the holder stands still from when it has the lock: no clock and no node tells it that the lock is over.
    #[cfg(feature = "testing")]
    pub(crate) notices_nothing: bool,
}

impl LockOptions {
    pub(crate) fn template(&self) -> &str {
        self.template.as_deref().unwrap_or(OTHER)
    }
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            wait: Duration::from_secs(2),
            max_hold: Duration::from_secs(60),
            min_validity: Duration::ZERO,
            renew: true,
            kind: Kind::Write,
            template: None,
            #[cfg(feature = "testing")]
            notices_nothing: false,
        }
    }
}
