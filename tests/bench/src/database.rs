//! What a lock costs a PostgreSQL server: time, its processor time, and the log (WAL) that it writes; beside an advisory lock, which has no
//! token and writes nothing, and beside a table of locks, which has no token, no queue and no renewal.

use std::time::Duration;

use lock_core::{LockManager, PostgresNode};
use lock_support::PostgresServer;
use tokio::time::sleep;

use super::advisory::AdvisoryLocks;
use super::contender::{Locks, TTL};
use super::lock_table::LockTable;
use super::row::{Row, Unit};
use super::uncontended::cycle;
use super::{BoxError, Plan};

const PART: &str = "database";
/// What a cycle leaves to other processes of the server is done by then: the log is written every 200 ms.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = beside(plan, true).await?;
    rows.extend(beside(plan, false).await?);
    Ok(rows)
}

/// With `synchronous_commit` on or off, for the locks and for the table.
async fn beside(plan: &Plan, synchronous: bool) -> Result<Vec<Row>, BoxError> {
    let (rounds, cycles) = plan.pick((7, 1000), (3, 300));
    let server = PostgresServer::start_with(&["-c", "fsync=on"]).await;
    let node = PostgresNode::from_url(&server.url())?.synchronous_commit(synchronous);
    let contenders = [
        Locks::Ours(LockManager::builder().nodes([node]).ttl(TTL).connect().await?),
        Locks::Table(LockTable::connect(&server.url(), synchronous).await?),
        Locks::Advisory(AdvisoryLocks::connect(&server.url()).await?),
    ];
    let mut costs = [Costs::default(), Costs::default(), Costs::default()];
    // The first round warms up.
    for round in 0..=rounds {
        for (contender, costs) in contenders.iter().zip(&mut costs) {
            let (processor, log) = (server.processor_time(), log_position(&server).await?);
            let (_, time) = cycle(contender, cycles).await?;
            sleep(SETTLE).await;
            let processor = server.processor_time().saturating_sub(processor);
            let log = log_position(&server).await? - log;
            if round > 0 {
                #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
                costs.push(time, processor.as_secs_f64() / cycles as f64, log / cycles as f64);
            }
        }
    }
    let [ours, table, advisory] = costs;
    let what = format!("synchronous_commit {}", if synchronous { "on" } else { "off" });
    let row =
        |figure: &str, unit: Unit, ours: &[f64]| Row::new(PART, format!("{what}: {figure} of a cycle"), unit, ours);
    let (time, processor, log) = ("time, p50,", "processor time of the server", "WAL");
    let (by_table, by_advisory) = ("INSERT … ON CONFLICT, DELETE", "pg_advisory_lock");
    Ok(vec![
        row(time, Unit::Seconds, &ours.time).against(by_table, &ours.time, &table.time),
        row(processor, Unit::Seconds, &ours.processor)
            .against(by_table, &ours.processor, &table.processor)
            .at_most(1.0),
        row(log, Unit::Bytes, &ours.log).against(by_table, &ours.log, &table.log).at_most(1.0),
        row(time, Unit::Seconds, &ours.time).against(by_advisory, &ours.time, &advisory.time),
        row(processor, Unit::Seconds, &ours.processor).against(by_advisory, &ours.processor, &advisory.processor),
    ])
}

/// What a cycle cost, round by round.
#[derive(Default)]
struct Costs {
    time: Vec<f64>,
    processor: Vec<f64>,
    log: Vec<f64>,
}

impl Costs {
    fn push(&mut self, time: f64, processor: f64, log: f64) {
        self.time.push(time);
        self.processor.push(processor);
        self.log.push(log);
    }
}

/// How far the log of the server is written, in bytes.
async fn log_position(server: &PostgresServer) -> Result<f64, BoxError> {
    Ok(server.query("SELECT pg_current_wal_insert_lsn() - '0/0'").await.parse()?)
}
