//! The attribute macro: what it accepts, and the diagnostics for everything else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod diagnostics;
mod limits;
