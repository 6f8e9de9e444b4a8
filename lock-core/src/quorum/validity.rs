use std::time::Duration;

/// The allowance for the drift between the clocks of nodes and client while a lock lives: 1 % of its time to live, and 2 ms for
/// Redis's precision of 1 ms at both ends. As on the [Redlock page](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/):
/// only the rates of clocks count, never what time they show.
pub fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// The remaining validity of a lock: its time to live, less the drift, less the time since before the first request was sent.
/// `None` if nothing is left.
pub fn validity(ttl: Duration, elapsed: Duration) -> Option<Duration> {
    // From before the first request: a process that was paused anywhere between that and this has less, and never more than the nodes gave.
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
    fn validity_is_the_ttl_less_drift_and_elapsed_time() {
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
