//! Benchmarks: the engine and its peer, the published `rslock`, on the same servers in the same run.
//!
//! | file | |
//! |---|---|
//! | `contender` | the engine and its peer, behind one interface |
//! | `advisory`, `lock_table`, `recipe` | what users of PostgreSQL and ZooKeeper have: `pg_advisory_lock`, a table of locks, and sequential znodes |
//! | `sorted_set` | permits on one master, as others have them |
//! | `raw_quorum` | the floor: what one fan-out to a quorum costs without any lock |
//! | `load`, `commands` | many tasks that lock and unlock; the commands that the servers count meanwhile |
//! | `link` | a proxy that makes a master distant |
//! | `roles`, `child` | child processes that play a role in a part |
//! | `uncontended`, `distinct`, `contended`, `handover`, `processes`, `instances`, `burst`, `distance`, `wakeup`, `waiters`, `readers`, `permits`, `stores`, `database`, `hung`, `overload`, `polling`, `memory`, `layer`, `held`, `metrics` | the parts: one question each |
//! | `scaling`, `plots` | how the cost scales, and its plots |
//! | `spread`, `row`, `table`, `machine`, `run` | figures, their targets, and a run from end to end |
//!
//! Absolute figures hold for one machine at one time. Targets are about ratios of figures that were measured
//! alternately, round by round (A B A B ...), so that disturbances affect both. A figure is the median over the rounds,
//! with the minimum and the maximum. A missed target is shown as missed, and is no error.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod advisory;
mod burst;
mod child;
mod commands;
mod contended;
mod contender;
mod database;
mod distance;
mod distinct;
mod handover;
mod held;
mod hung;
mod instances;
mod layer;
mod link;
mod load;
mod lock_table;
mod machine;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod overload;
mod permits;
mod plots;
mod polling;
mod processes;
mod raw_quorum;
mod readers;
mod recipe;
mod roles;
mod row;
mod run;
mod scaling;
mod shards;
mod sorted_set;
mod spread;
mod stores;
mod table;
mod uncontended;
mod waiters;
mod wakeup;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::machine::Machine;
pub use self::plots::draw;
pub use self::roles::Role;
pub use self::row::{Baseline, Row, Target, TargetOf, Unit};
pub use self::run::{Part, Report, run};
pub use self::scaling::{Curve, Series};
pub use self::spread::Spread;

/// Why a part could not be measured.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Fewer and shorter rounds: two minutes in all, and more noise.
    pub quick: bool,
    /// The binary that plays a [`Role`] when it is called with one.
    pub program: PathBuf,
    /// The parts to measure.
    pub parts: Vec<Part>,
}

impl Plan {
    /// The first value in a full run, the second in a quick one.
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// How many masters there are, unless a figure says otherwise.
const MASTERS: usize = 5;

/// A resource that nothing else in this process has locked, so that leftovers of one contender affect no other.
fn fresh(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
