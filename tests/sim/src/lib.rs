//! A deterministic simulation: the real engine and the real redis-rs on a simulated network, in virtual time, against
//! simulated Redis servers. Faults are injected as a seed determines, and the recorded history is checked against the
//! promises. A seed always produces the same run, byte for byte.
//!
//! A run begins with a phase of faults, whose kinds the [`Scenario`] determines, while clients write, read, downgrade, take sets, delegate
//! and adopt, and force releases, on the same names. Then the faults end, and all clients line up for
//! each lock once more; some of them die or freeze in line. The checks:
//!
//! - no lease to write is valid beside another one of the resource, as their holders are notified; those to read may be;
//! - tokens are unique, and larger than those that were granted before their call began, except between readers;
//! - who is evicted does not renew, and who comes after is not evicted; an adopted lock ends with its holder's key;
//! - a set of locks is granted whole and lost whole;
//! - a resource that checks tokens loses no update;
//! - each call returns within its wait and the second of first contact;
//! - after the faults, each client acquires each lock, no lease ends early, and no key is left when all clients are done;
//! - nobody waits in line for longer than those before it may take, however many of them died or froze.
//!
//! A paused client is one whose messages are held and whose worker does not check its lease. Its timers keep running, as they
//! do for a stopped process. On a suspended machine nothing runs, and its clock stands still: its client may believe in its
//! lease for too long, so exclusion is not judged for it; the order of tokens and the fenced resource are.
//!
//! What this simulation does not cover: all clients' clocks run at the same rate; those of servers do not. A message lost in a
//! partition stays lost, and so does its connection.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod check;
mod client;
mod counting;
mod delegating;
mod grants;
mod history;
mod hosts;
mod line;
mod machine;
mod mixed;
mod nemesis;
mod plan;
mod report;
mod rng;
mod run;
mod socket;
mod uplink;
mod world;

pub use self::plan::Scenario;
pub use self::report::{Report, run_all};
pub use self::run::{Outcome, run};
