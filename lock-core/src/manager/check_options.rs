use std::time::Duration;

use crate::limits::{MAX_HOLD, MAX_WAIT, MIN_TTL, OutOfRange};
use crate::options::LockOptions;
use crate::quorum::validity;

/// The shortest `max_hold`.
const MIN_HOLD: Duration = Duration::from_millis(1);

/// Checks the options of a lock.
pub(super) fn check_options(options: &LockOptions, max_ttl: Duration) -> Result<(), OutOfRange> {
    OutOfRange::check("ttl", options.ttl, MIN_TTL, max_ttl)?;
    OutOfRange::check("wait", options.wait, Duration::ZERO, MAX_WAIT)?;
    OutOfRange::check("max_hold", options.max_hold, MIN_HOLD, MAX_HOLD)?;
    // No grant can have more validity than one that took no time.
    let max_validity = validity(options.ttl, Duration::ZERO).unwrap_or_default();
    OutOfRange::check("min_validity", options.min_validity, Duration::ZERO, max_validity)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_TTL: Duration = Duration::from_secs(60);

    #[test]
    fn the_defaults_are_in_range() {
        assert_eq!(check_options(&LockOptions::default(), MAX_TTL), Ok(()));
    }

    #[test]
    fn an_option_out_of_range_is_reported_with_its_range() {
        let check = |options| check_options(&options, MAX_TTL).unwrap_err();
        let error = check(LockOptions { ttl: Duration::from_millis(99), ..LockOptions::default() });
        assert_eq!(error.to_string(), "ttl must be between 100ms and 60s, got 99ms");
        assert_eq!(check(LockOptions { ttl: Duration::from_secs(61), ..LockOptions::default() }).field, "ttl");
        assert_eq!(check(LockOptions { max_hold: Duration::ZERO, ..LockOptions::default() }).field, "max_hold");
        assert_eq!(check(LockOptions { wait: Duration::MAX, ..LockOptions::default() }).field, "wait");
        let min_validity = Duration::from_secs(10);
        assert_eq!(check(LockOptions { min_validity, ..LockOptions::default() }).field, "min_validity");
    }
}
