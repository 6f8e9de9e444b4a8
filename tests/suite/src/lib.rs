//! The examples of the README, compiled and run as doctests. The tests proper are in `tests/`, a few binaries with one module
//! for each subject.

/// The README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
