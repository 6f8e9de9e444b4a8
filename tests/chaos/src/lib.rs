//! Chaos on real processes: redis-servers, services and a nemesis that hurts them and the links between them, within what
//! the promises allow; and what they did, checked afterwards.
//!
//! | file | |
//! |---|---|
//! | `service`, `worker`, `round`, `log` | a service process: tasks that lock, read, work, write and release, or give up |
//! | `ledger` | what they write to: counters in one SQLite file, behind a fence |
//! | `history` | what they saw, line by line, on a clock that all processes share ([`lock_history::Moment`]) |
//! | `world`, `process`, `link`, `calls` | what can be hurt |
//! | `fault`, `budget`, `nemesis` | what hurts, and how much at a time |
//! | `beyond` | what is broken on purpose |
//! | `grants`, `check` | the history as grants ([`lock_history::Grant`]), and what must hold of it beside [`lock_history::check`] |
//! | `waits`, `turns`, `healthy` | the history as waits and turns, and when those who wait must get on |
//! | `stuck`, `fairness` | that they do, and in turn |
//! | `run`, `report`, `queueing` | a run from end to end, and what came of it |
//!
//! What the checks rest on: `CLOCK_MONOTONIC` is one clock for all processes of a machine. The servers expire keys by the wall
//! clock, which must not be set while a run goes on.
//!
//! Real processes can not be replayed: a seed decides which faults come in which order, and what the services are up to; the
//! scheduler does the rest. Run a seed that found something several times.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod beyond;
mod budget;
mod calls;
mod check;
mod fairness;
mod fault;
mod grants;
mod healthy;
mod history;
mod ledger;
mod link;
mod log;
mod nemesis;
mod process;
mod queueing;
mod report;
mod round;
mod run;
mod service;
mod stuck;
mod turns;
mod waits;
mod worker;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

pub use self::calls::Calls;
pub use self::queueing::Queueing;
pub use self::report::{Report, Writes};
pub use self::run::run;
pub use self::service::{ServiceArgs, serve};

/// A run that is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What decides the faults.
    pub seed: u64,
    /// How long services are hurt, at least, without the time that recovery takes.
    pub seconds: u64,
    /// The binary that becomes a service when it is called with `service`.
    pub program: PathBuf,
    /// An empty directory for the histories and the database.
    pub directory: PathBuf,
    /// What is broken on purpose, so that the run must find something.
    pub broken: Option<Broken>,
}

/// What the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// The services write without the fence: updates are lost.
    Unfenced,
    /// All servers forget at once, which is more than the promises allow: there are two holders at a time.
    Amnesia,
    /// Somebody who is in no history holds a resource: it is free, for all that is known, and those who wait do not get it.
    Stranger,
    /// The servers forget all the time who waits: whoever is there when a lock is released takes it, and the others starve.
    NoQueues,
}

/// How many servers there are.
const SERVERS: usize = 5;
/// How many services there are.
const SERVICES: usize = 3;
/// How many resources there are.
const RESOURCES: usize = 3;
/// The resource that is never held for long, so that all who wait for it are soon served.
const HURRIED: usize = 0;
/// How many tasks of one service want one resource: there is a line, and someone to whom the lock can be handed over.
const TASKS: usize = 4;
/// How long those wait who do not give up early. Longer than any check wants to see them wait.
const PATIENT: Duration = Duration::from_secs(6);
/// The longest time to live of a lock. Short, so that servers that forgot come back within a run.
const MAX_TTL: Duration = Duration::from_secs(1);
/// More than the default, for a machine that has much else to do.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// What the keys begin with.
const PREFIX: &str = "lock:";

/// The name of a resource.
fn resource(number: usize) -> String {
    format!("account-{number}")
}
