use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on the machine's monotonic clock (`CLOCK_MONOTONIC`), in microseconds: the clock on which the engine counts
/// validity, and the same for all processes of one machine. It goes on while a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Moment(pub(super) u64);

impl Moment {
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap(), u64::try_from(now.tv_nsec).unwrap());
        Self(seconds * 1_000_000 + nanos / 1_000)
    }

    /// This much later. Rounded down, so that what a holder claims is never made more of.
    pub(super) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// From an earlier moment to this one.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
