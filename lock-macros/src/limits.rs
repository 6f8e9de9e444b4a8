//! What the engine and the layer accept, so that the compiler refuses the rest. A macro cannot depend on the crate that it generates code
//! for: `macros::limits` in the suite compares these with what is accepted at run time.

use std::ops::RangeInclusive;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MILLISECOND: Duration = Duration::from_millis(1);

/// The most bytes of a resource. The engine checks the finished one; only the text between the placeholders is known here.
pub(crate) const MAX_RESOURCE_LEN: usize = 512;
/// The most resources of a set.
pub(crate) const MAX_SET_LEN: usize = 32;
pub(crate) const PERMITS: RangeInclusive<u32> = 1..=100;
/// The most that `max_ttl` can be set to; what it is set to is known only at run time.
pub(crate) const TTL: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;
pub(crate) const WAIT: RangeInclusive<Duration> = Duration::ZERO..=DAY;
pub(crate) const MAX_HOLD: RangeInclusive<Duration> = MILLISECOND..=DAY.saturating_mul(7);
pub(crate) const RETRY_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60 * 60);
pub(crate) const BODY_TIMEOUT: RangeInclusive<Duration> = MILLISECOND..=DAY;
