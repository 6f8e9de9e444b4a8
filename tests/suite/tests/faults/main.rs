//! Tests that load the machine or measure time: each takes [`alone`](lock_support::alone), so that one runs at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod inventory;
mod redis_exclusion;
mod redis_faults;
mod redis_outages;
