//! What the attribute macro accepts, and what it says about the rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod macro_diagnostics;
