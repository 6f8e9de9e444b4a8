//! A run, from end to end.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tokio::time::timeout;

#[cfg(feature = "metrics")]
use super::metrics;
use super::{BoxError, Curve, Machine, Plan, Row};
use super::{
    burst, contended, database, distance, distinct, handover, held, hung, instances, layer, memory, overload, permits,
    polling, processes, readers, scaling, shards, stores, uncontended, waiters, wakeup,
};

/// A part of the benchmarks: one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// One caller without contention.
    Uncontended,
    /// Many tasks, each with a lock of its own.
    Distinct,
    /// One key, many tasks, each with a fixed number of cycles.
    Contended,
    /// How many commands a cycle costs with many waiters.
    Handover,
    /// One key, several processes.
    Processes,
    /// One key, up to hundreds of instances of a service with a task each.
    Instances,
    /// Many free keys at once.
    Burst,
    /// Masters a millisecond away.
    Distance,
    /// The time from a release to the grant of the waiter.
    Wakeup,
    /// A thousand waiters for a lock that is held.
    Waiters,
    /// One key that many read and one writes.
    Readers,
    /// Permits of one resource, wanted by many processes.
    Permits,
    /// Redis, PostgreSQL and ZooKeeper, each beside what its users would take instead.
    Stores,
    /// Shards on the servers of a Redis Cluster.
    Shards,
    /// What a lock costs a PostgreSQL server, beside an advisory lock and a table of locks.
    Database,
    /// One of five masters hangs.
    Hung,
    /// One key, many instances, and too little processor time.
    Overload,
    /// One key, and instances that the masters cannot wake.
    Polling,
    /// The engine without Redis.
    Memory,
    /// `LockLayer` beyond the lock.
    Layer,
    /// Many locks held at a time.
    Held,
    /// How the cost scales.
    Scaling,
    /// The feature `metrics`, with and without a recorder. The last part, because the recorder stays.
    #[cfg(feature = "metrics")]
    Metrics,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub quick: bool,
    /// How many seconds it took.
    pub seconds: f64,
    /// The figures.
    pub rows: Vec<Row>,
    /// The scaling curves.
    pub curves: Vec<Curve>,
    /// What could not be measured, and why.
    pub errors: Vec<String>,
}

/// Measures the parts one after the other. If one fails, the report has the error, and the others go on. All processes
/// are ended when the future completes or is dropped. What is timed runs in tasks, as in a service, wherever this is
/// awaited.
///
/// # Errors
///
/// If the machine cannot be inspected.
///
/// # Panics
///
/// If no redis-server can be started.
pub async fn run(plan: &Plan) -> Result<Report, BoxError> {
    let began = Instant::now();
    let machine = Machine::inspect().await?;
    let mut report =
        Report { machine, quick: plan.quick, seconds: 0.0, rows: Vec::new(), curves: Vec::new(), errors: Vec::new() };
    // Far more than a part takes.
    let limit = plan.pick(Duration::from_secs(180), Duration::from_secs(60));
    for part in &plan.parts {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("bench: {:>4.0} s  {name}", began.elapsed().as_secs_f64());
        match timeout(limit, part.measure(plan)).await {
            Ok(Ok((rows, curves))) => {
                report.rows.extend(rows);
                report.curves.extend(curves);
            }
            Ok(Err(error)) => report.errors.push(format!("{name}: {error}")),
            Err(_) => report.errors.push(format!("{name}: not done within {limit:?}")),
        }
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

impl Part {
    async fn measure(self, plan: &Plan) -> Result<(Vec<Row>, Vec<Curve>), BoxError> {
        let rows = match self {
            Self::Uncontended => uncontended::measure(plan).await?,
            Self::Distinct => distinct::measure(plan).await?,
            Self::Contended => contended::measure(plan).await?,
            Self::Handover => handover::measure(plan).await?,
            Self::Processes => processes::measure(plan).await?,
            Self::Instances => instances::measure(plan).await?,
            Self::Burst => burst::measure(plan).await?,
            Self::Distance => distance::measure(plan).await?,
            Self::Wakeup => wakeup::measure(plan).await?,
            Self::Waiters => waiters::measure(plan).await?,
            Self::Readers => readers::measure(plan).await?,
            Self::Permits => permits::measure(plan).await?,
            Self::Shards => shards::measure(plan).await?,
            Self::Stores => stores::measure(plan).await?,
            Self::Database => database::measure(plan).await?,
            Self::Hung => hung::measure(plan).await?,
            Self::Overload => overload::measure(plan).await?,
            Self::Polling => polling::measure(plan).await?,
            Self::Memory => memory::measure(plan).await?,
            Self::Layer => layer::measure(plan).await?,
            Self::Held => held::measure(plan).await?,
            #[cfg(feature = "metrics")]
            Self::Metrics => metrics::measure(plan).await?,
            Self::Scaling => return Ok((Vec::new(), scaling::measure(plan).await?)),
        };
        Ok((rows, Vec::new()))
    }
}
