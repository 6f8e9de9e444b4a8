use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::kind::Kind;

/// The shortest time to live of a lock: 100 ms.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// The longest time to live that `max_ttl` can be set to: one day.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest that a caller may wait for a lock: one day.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest that renewals may keep a lock: seven days.
pub const MAX_HOLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most permits of a resource: 100.
pub const MAX_PERMITS: u32 = 100;
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
    /// What observers and spans are told in place of the resource.
    pub(crate) template: Option<Arc<str>>,
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
        }
    }
}

/// A number of permits that no resource can have: none, or more than [`MAX_PERMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("permits must be between 1 and {MAX_PERMITS}, got {permits}")]
pub struct InvalidPermits {
    /// How many were asked for.
    pub permits: u32,
}

impl InvalidPermits {
    pub(crate) fn check(permits: u32) -> Result<(), Self> {
        if (1..=MAX_PERMITS).contains(&permits) { Ok(()) } else { Err(Self { permits }) }
    }
}

/// A duration that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} must be between {least:?} and {most:?}, got {value:?}")]
pub struct OutOfRange {
    /// The name of the setting.
    pub field: &'static str,
    /// What it was set to.
    pub value: Duration,
    /// The least that is allowed.
    pub least: Duration,
    /// The most that is allowed.
    pub most: Duration,
}

impl OutOfRange {
    pub(crate) fn check(field: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), Self> {
        if (least..=most).contains(&value) { Ok(()) } else { Err(Self { field, value, least, most }) }
    }
}
