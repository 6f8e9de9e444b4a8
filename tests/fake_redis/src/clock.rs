use std::time::Duration;

/// When simulated time begins, in microseconds since the Unix epoch.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// The wall clock of a server: it may be wrong, drift and jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// By how many microseconds it is ahead.
    pub offset: i64,
    /// By how many microseconds it gains in each second.
    pub gain: i64,
}

impl NodeClock {
    /// The time it shows, in microseconds since the Unix epoch, when `now` of true time has passed.
    #[must_use]
    pub fn micros(&self, now: Duration) -> i64 {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX / 4);
        BEGINNING + self.offset + now + now / 1000 * self.gain / 1000
    }

    /// The time it shows in milliseconds, by which Redis expires keys.
    pub(super) fn millis(&self, now: Duration) -> i64 {
        self.micros(now) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_gains() {
        let clock = NodeClock { offset: 5, gain: 9_000 };
        let shown = clock.micros(Duration::from_secs(2)) - clock.micros(Duration::ZERO);
        assert_eq!(shown, 2_018_000);
        assert_eq!(clock.millis(Duration::from_secs(1)), (BEGINNING + 5 + 1_009_000) / 1000);
    }
}
