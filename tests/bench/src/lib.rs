//! Benchmarks: the engine beside its peer, the published `rslock`, on the same servers in the same run.
//!
//! | file | |
//! |---|---|
//! | `contender` | the engine and its peer, behind one face |
//! | `raw` | what a round costs without any lock: the floor |
//! | `load`, `commands` | many tasks at work for a while; what the servers count meanwhile |
//! | `roles`, `crew` | what other processes do for a part; such processes |
//! | `alone`, `distinct`, `quota`, `handover`, `processes`, `wakeup`, `waiters`, `hung`, `local`, `layer`, `held` | the parts: one question each |
//! | `growth`, `plots` | how the cost grows, and drawings of it |
//! | `spread`, `row`, `table`, `machine`, `run` | figures, their targets, and a run from end to end |
//!
//! Absolute figures are those of one machine at one time. What is judged are ratios of what was measured in turns, round by
//! round (A B A B ...), so that whatever else the machine does hits both. A figure is the median over the rounds; the least
//! and the most are told with it. A target that is missed is shown as missed, and is no error.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod alone;
mod commands;
mod contender;
mod crew;
mod distinct;
mod growth;
mod handover;
mod held;
mod hung;
mod layer;
mod load;
mod local;
mod machine;
mod plots;
mod processes;
mod quota;
mod raw;
mod roles;
mod row;
mod run;
mod spread;
mod table;
mod waiters;
mod wakeup;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::growth::{Curve, Series};
pub use self::machine::Machine;
pub use self::plots::draw;
pub use self::roles::Role;
pub use self::row::{Against, Judged, Row, Target, Unit};
pub use self::run::{Part, Report, run};
pub use self::spread::Spread;

/// What keeps a part from being measured.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How a run is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Less of everything: a minute in all, and more noise.
    pub quick: bool,
    /// The binary that takes a [`Role`] when it is called with one.
    pub program: PathBuf,
    /// The parts to measure.
    pub parts: Vec<Part>,
}

impl Plan {
    /// One or the other, by how much there is to be done.
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// How many masters there are, unless a figure says otherwise.
const MASTERS: usize = 5;

/// A name that nothing else in this process has locked before: what a contender leaves behind hurts nobody else.
fn fresh(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
