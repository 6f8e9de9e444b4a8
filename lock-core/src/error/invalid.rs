//! The errors for a value that is not in its range, or a name that is none.

use std::time::Duration;

use thiserror::Error;

use crate::limits::MAX_RESOURCE_LEN;

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
