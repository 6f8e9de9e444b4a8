use std::time::Duration;

/// How far the clocks of nodes and client may part while a lock lives: 1 % of its time to live, and 2 ms for Redis's
/// precision of 1 ms on both ends.
#[must_use]
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// What is left of a lock: its time to live less the drift, less what elapsed since before the first request was sent.
/// `None` when nothing is.
#[must_use]
pub fn validity(ttl: Duration, elapsed: Duration) -> Option<Duration> {
    let left = ttl.checked_sub(drift(ttl))?.checked_sub(elapsed)?;
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn validity_is_what_time_and_drift_leave() {
        assert_eq!(validity(ms(1000), ms(0)), Some(ms(988)));
        assert_eq!(validity(ms(1000), ms(900)), Some(ms(88)));
        assert_eq!(validity(ms(1000), ms(988)), None);
        assert_eq!(validity(ms(1000), ms(5000)), None);
    }

    #[test]
    fn short_times_to_live_do_not_underflow() {
        for ttl in 0..5 {
            assert_eq!(validity(ms(ttl), ms(ttl)), None);
        }
        assert_eq!(validity(ms(2), ms(0)), None);
    }
}
