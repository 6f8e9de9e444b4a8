//! Simulation: the real engine, over the real redis-rs, on a simulated network and in simulated time, against fake Redis
//! servers; everything that can go wrong goes wrong, as a seed has it, and the record of it is checked against the promises.
//! One seed is one run, to the byte.
//!
//! A run is a storm of faults ([`Scenario`] says which), then peace; then each client takes each lock a last time. Checked are:
//!
//! - no two leases of a resource are valid at once, as their holders are told;
//! - tokens are unique, and larger than those granted before their call began;
//! - a resource that checks tokens loses no update;
//! - each call is answered within its wait and the second of first contact;
//! - in peace, each client gets each lock, nothing ends it early, and when all are done no key is left anywhere.
//!
//! What a simulation of this kind does not show: a paused client is one whose messages are held and whose worker does not look
//! at its lease; its timers run on, as they do for a stopped process and not for a suspended machine. Clients' clocks all run
//! alike; those of servers do not. A message that a partition swallows is lost for good, and its connection with it.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod batch;
mod chance;
mod check;
mod client;
mod counting;
mod history;
mod nemesis;
mod plan;
pub mod redis;
mod run;
mod socket;
mod world;

pub use self::batch::{Report, run_all};
pub use self::plan::Scenario;
pub use self::run::{Outcome, run};
