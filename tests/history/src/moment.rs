use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on a clock that all holders share, in microseconds. For real processes it is the machine's monotonic clock
/// (`CLOCK_MONOTONIC`): the clock on which the engine counts validity, and the same for all processes of one machine. It goes on
/// while a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The latest moment.
    pub const MAX: Self = Self(u64::MAX);

    /// Now, on the machine's clock.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap(), u64::try_from(now.tv_nsec).unwrap());
        Self(seconds * 1_000_000 + nanos / 1_000)
    }

    /// The moment at this time after the start of the clock.
    #[must_use]
    pub fn after_start(elapsed: Duration) -> Self {
        Self(0).plus(elapsed)
    }

    /// This much later. Rounded down, so that a holder's claim is never extended.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// From an earlier moment to this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            return f.write_str("the end");
        }
        write!(f, "{}.{:03} ms", self.0 / 1_000, self.0 % 1_000)
    }
}
