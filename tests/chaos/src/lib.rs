//! Chaos tests on real processes: servers of a store, services, and a nemesis that injects faults into them and into the
//! links between them, within the limits of the promises. Afterwards the recorded histories are checked.
//!
//! | file | |
//! |---|---|
//! | `service`, `worker`, `cycle`, `log` | a service process: tasks that lock, read, work, write and release, or give up |
//! | `kind`, `holding` | the kinds of locks that they mix on the same names, and what is done and recorded under each |
//! | `sets`, `delegations`, `operator` | several locks at once; locks that another service adopts; forced releases |
//! | `succession` | forced releases at agreed moments, beside callers in the former holder's process |
//! | `ledger` | what they write to: counters in one SQLite file, behind a fence |
//! | `history` | what each process saw, as JSON lines, with the clock that all processes share ([`lock_history::Moment`]) |
//! | `store` | the kinds of servers in which locks are kept, and the faults of each |
//! | `frames` | the wake-ups in what a Redis server sends over its one connection |
//! | `signposts` | what the servers of a cluster say of each other, turned to the links |
//! | `masters` | how a service reaches the masters |
//! | `world`, `process`, `link`, `wakeups` | the servers, services and links, into which faults are injected |
//! | `fault`, `budget`, `nemesis` | the faults, and which of them may be active at a time |
//! | `clock_step` | a step of the clock of one PostgreSQL server |
//! | `broken` | variants that are broken on purpose |
//! | `grants`, `handovers`, `waits` | the histories as grants ([`lock_history::Grant`]), handover chains and waits |
//! | `safety` | what must hold at all times, beside [`lock_history::check`] |
//! | `windows`, `liveness`, `fairness` | when the system is healthy, and that waiters make progress then, in order |
//! | `crowd` | a phase of a run: many processes in line for one resource, of which some are killed or frozen |
//! | `run`, `report`, `queue_stats`, `mix` | a run from end to end, and its report |
//! | `membership` | another kind of run, about who the masters are |
//! | `probe`, `race` | what its services also do: show whether locks can be acquired, and lock at the same moment |
//!
//! The checks rely on `CLOCK_MONOTONIC`, which is one clock for all processes of a machine. The servers expire keys by
//! the wall clock, which must not be set during a run.
//!
//! Real processes cannot be replayed. A seed decides the order of the faults and what the services do; the scheduler
//! does the rest. Run a seed that found something several times.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod broken;
mod budget;
mod clock_step;
mod crowd;
mod cycle;
mod delegations;
mod fairness;
mod fault;
mod frames;
mod grants;
mod handovers;
mod history;
mod holding;
mod kind;
mod ledger;
mod link;
mod liveness;
mod log;
mod masters;
pub mod membership;
mod mix;
mod nemesis;
mod operator;
mod probe;
mod process;
mod queue_stats;
mod race;
mod report;
mod run;
mod safety;
mod service;
mod sets;
mod signposts;
mod store;
mod succession;
mod waits;
mod wakeups;
mod windows;
mod worker;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

pub use self::crowd::CrowdStats;
pub use self::mix::Mix;
pub use self::queue_stats::QueueStats;
pub use self::report::{Report, Writes};
pub use self::run::run;
pub use self::service::{ServiceArgs, serve};
pub use self::store::Store;
pub use self::wakeups::Wakeups;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the servers are. In a run about membership, they are those of Redis.
    pub store: Store,
    /// Whether there is one server, instead of a quorum.
    pub alone: bool,
    /// Decides the faults.
    pub seed: u64,
    /// How many seconds faults are injected for, at least, without the time for recovery. With zero, each fault is
    /// injected once, and there are no phases of other kinds.
    pub seconds: u64,
    /// The binary that runs as a service when its first argument is `service`.
    pub program: PathBuf,
    /// An empty directory for the histories and the database.
    pub directory: PathBuf,
    /// What is broken on purpose. The run must then report violations.
    pub broken: Option<Broken>,
}

impl Plan {
    /// How many servers there are.
    fn servers(&self) -> usize {
        if self.alone { 1 } else { self.store.quorum() }
    }

    /// How many nodes vote. An ensemble is one.
    fn nodes(&self) -> usize {
        if self.store == Store::Zookeeper { 1 } else { self.servers() }
    }
}

/// A variant that is broken on purpose, which the checks must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// The services write without the fence, so updates are lost.
    Unfenced,
    /// A client that is none of ours, and records no history, holds a resource. To the checks it looks free, and its waiters do
    /// not get it.
    Stranger,
    /// The servers keep losing their queues. The caller that asks when a lock is released gets it, and others starve.
    NoQueues,
    /// Somebody listens on the channels of all waiters, so the servers keep the lock for dead ones, one after another.
    Ghosts,
    /// Masters that forgot vote at once, so two holders are valid at a time. In a run about membership.
    NoQuarantine,
}

/// How many servers there are in a run about membership.
const SERVERS: usize = 5;
/// How many services there are, besides the [crowd](crowd::MEMBERS).
const SERVICES: usize = 3;
/// How many resources there are.
const RESOURCES: usize = 3;
/// The resource that is never held for long, so that all its waiters are soon served.
const QUICK_RESOURCE: usize = 0;
/// How many tasks of one service want one resource. More than one, so that there are local queues and handovers.
const TASKS: usize = 4;
/// The `wait` of the patient callers. Longer than the longest wait that the checks accept.
const LONG_WAIT: Duration = Duration::from_secs(6);
/// The longest time to live of a lock. Short, so that quarantines end within a run.
const MAX_TTL: Duration = Duration::from_secs(1);
/// Longer than the default, because the machine is busy.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// The prefix of all keys.
const PREFIX: &str = "lock:";

/// The resources that also have permits, and how many. They are locked, too, and neither knows of the other.
const PERMITS: [(usize, u32); 2] = [(1, 2), (2, 3)];
/// How many tasks of one service want a permit of one of them, beside those that lock it.
const PERMIT_TASKS: usize = 2;

/// The name of a resource.
fn resource(index: usize) -> String {
    format!("account-{index}")
}

/// How many permits a resource has.
fn permits(resource: &str) -> u32 {
    let of = |(index, _): &&(usize, u32)| self::resource(*index) == resource;
    PERMITS.iter().find(of).map_or(0, |(_, permits)| *permits)
}

/// The names of all slots of permits.
fn slots() -> Vec<String> {
    let slots = |(index, permits): (usize, u32)| (0..permits).map(move |slot| format!("{}{{{slot}}}", resource(index)));
    PERMITS.into_iter().flat_map(slots).collect()
}

/// What the locks of the services protect: the resources, and one more for each slot.
fn protected() -> Vec<String> {
    (0..RESOURCES).map(resource).chain(slots()).collect()
}
