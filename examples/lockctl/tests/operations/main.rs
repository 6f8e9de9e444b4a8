//! The runbooks of `docs/operations.md`, on real servers: each test does what its runbook says, with `lockctl` where it says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod command_line;
mod completions;
mod deploy;
mod inspection;
mod lockctl;
mod losses;
mod replacing;
mod service;
mod settings;
#[cfg(feature = "tls")]
mod tls;
