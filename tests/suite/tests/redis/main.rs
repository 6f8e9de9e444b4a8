//! The engine on real `redis-server` processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod connecting;
mod dropped_anywhere;
mod forgetting;
mod regressions;
mod runtimes;
mod script_equivalence;
mod waited_for;
