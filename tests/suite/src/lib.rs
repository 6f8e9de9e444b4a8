//! The examples of the READMEs, compiled and run as doctests. The tests proper are in `tests/`, a few binaries with one module
//! for each subject.

/// The README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The README of the engine.
#[cfg(doctest)]
#[doc = include_str!("../../../lock-core/README.md")]
pub struct ReadmeOfCore;
