//! How long, how many and how large: the ranges of what can be asked for, and the errors for what is not in them.

use std::time::Duration;

pub use crate::error::{InvalidName, OutOfRange};

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
/// The maximum length of the name of a resource, in bytes.
pub const MAX_RESOURCE_LEN: usize = 512;
/// The most resources that a set of locks can have.
pub const MAX_SET_LEN: usize = 32;

/// Checks how many permits a resource has.
pub(crate) fn check_permits(permits: u32) -> Result<(), OutOfRange<u32>> {
    OutOfRange::check("permits", permits, 1, MAX_PERMITS)
}
