use std::time::Duration;

use thiserror::Error;

/// The shortest time to live of a lock.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// The longest time to live that `max_ttl` can be set to.
pub const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest a caller may wait for a lock.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest that renewal may keep a lock.
pub const LONGEST_HOLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How one lock is taken and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) renew: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            wait: Duration::from_secs(2),
            max_hold: Duration::from_secs(60),
            min_validity: Duration::ZERO,
            renew: true,
        }
    }
}

impl LockOptions {
    pub(crate) fn check(&self, max_ttl: Duration) -> Result<(), OutOfRange> {
        OutOfRange::check("ttl", self.ttl, MIN_TTL, max_ttl)?;
        OutOfRange::check("wait", self.wait, Duration::ZERO, LONGEST_WAIT)?;
        OutOfRange::check("max_hold", self.max_hold, Duration::from_millis(1), LONGEST_HOLD)?;
        // More validity than a grant that cost no time would have can never be had.
        let most = crate::quorum::validity(self.ttl, Duration::ZERO).unwrap_or_default();
        OutOfRange::check("min_validity", self.min_validity, Duration::ZERO, most)
    }
}

/// A duration that is not in its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value:?}, allowed is {least:?} to {most:?}")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        assert_eq!(LockOptions::default().check(Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn what_is_out_of_range_is_named_with_its_range() {
        let options = LockOptions { ttl: Duration::from_millis(99), ..LockOptions::default() };
        let error = options.check(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.to_string(), "ttl is 99ms, allowed is 100ms to 60s");

        let options = LockOptions { ttl: Duration::from_secs(61), ..LockOptions::default() };
        assert_eq!(options.check(Duration::from_secs(60)).unwrap_err().field, "ttl");

        let options = LockOptions { max_hold: Duration::ZERO, ..LockOptions::default() };
        assert_eq!(options.check(Duration::from_secs(60)).unwrap_err().field, "max_hold");

        let options = LockOptions { wait: Duration::MAX, ..LockOptions::default() };
        assert_eq!(options.check(Duration::from_secs(60)).unwrap_err().field, "wait");

        let options = LockOptions { min_validity: Duration::from_secs(10), ..LockOptions::default() };
        assert_eq!(options.check(Duration::from_secs(60)).unwrap_err().field, "min_validity");
    }
}
