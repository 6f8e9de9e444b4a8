//! How long, how many and how large: the ranges of what can be asked for, and the errors for what is not in them.

use std::time::Duration;

use thiserror::Error;

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

/// A duration, or a number, that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} must be between {least:?} and {most:?}, got {value:?}")]
pub struct OutOfRange<T = Duration> {
    /// The name of the setting.
    pub field: &'static str,
    /// What it was set to.
    pub value: T,
    /// The least that is allowed.
    pub least: T,
    /// The most that is allowed.
    pub most: T,
}

impl<T: PartialOrd> OutOfRange<T> {
    pub(crate) fn check(field: &'static str, value: T, least: T, most: T) -> Result<(), Self> {
        if (&least..=&most).contains(&&value) { Ok(()) } else { Err(Self { field, value, least, most }) }
    }
}

/// Checks how many permits a resource has.
pub(crate) fn check_permits(permits: u32) -> Result<(), OutOfRange<u32>> {
    OutOfRange::check("permits", permits, 1, MAX_PERMITS)
}

/// Why the name of a resource, or a key prefix, is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// Too short or too long.
    #[error("the length must be between {min} and {max} bytes, got {len}", max = MAX_RESOURCE_LEN)]
    Length {
        /// The length in bytes.
        len: usize,
        /// The minimum length in bytes: 1 for a resource, 0 for a prefix.
        min: usize,
    },
    /// A control character or a brace.
    #[error("control characters and braces are not allowed, got {character:?} at byte {at}")]
    Character {
        /// The character.
        character: char,
        /// Its position, in bytes from the start.
        at: usize,
    },
}
