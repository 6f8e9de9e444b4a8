//! The feature `metrics`: what does it cost to record?

use std::time::{Duration, Instant};

use lock_core::LockManager;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::contender::{Contender, Locks};
use super::load::{Load, Release, Resources};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "metrics";
const TASKS: usize = 64;
/// As many as a service would have.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let urls = child::urls(&cluster);
    let connect = async || -> Result<[Locks; 2], BoxError> {
        Ok([Contender::Ours.connect(&urls).await?, Locks::Ours(LockManager::in_memory())])
    };
    // What has recorded before there is a recorder never records with it.
    let without = connect().await?;
    for locks in &without {
        per_second(plan, locks, None).await?;
    }
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()?;
    let with = connect().await?;
    let mut rows = Vec::new();
    for ((with, without), masters) in with.iter().zip(&without).zip(["5 masters", "in memory"]) {
        let (mut recorded, mut not_recorded) = (Vec::new(), Vec::new());
        for _ in 0..plan.pick(20, 3) {
            recorded.push(per_second(plan, with, Some(&recorder)).await?);
            not_recorded.push(per_second(plan, without, None).await?);
        }
        let figure = format!("cycles at {TASKS} tasks, {masters}, release awaited, with a recorder of metrics");
        rows.push(Row::new(PART, figure, Unit::PerSecond, &recorded).against("no recorder", &recorded, &not_recorded));
    }
    // In memory, a lock costs a tenth of what it does with servers.
    let in_memory = rows.pop();
    Ok(rows.into_iter().map(|row| row.at_least(0.97)).chain(in_memory).collect())
}

/// Cycles a second. What was recorded is sorted into the buckets in the same time.
async fn per_second(plan: &Plan, locks: &Locks, recorder: Option<&PrometheusHandle>) -> Result<f64, BoxError> {
    let length = plan.pick(Duration::from_millis(250), Duration::from_millis(100));
    let resources = Resources::Distinct(fresh("metrics"));
    let began = Instant::now();
    let done =
        Load { tasks: TASKS, length, resources, release: Release::Awaited, inside: Duration::ZERO }.run(locks).await?;
    if let Some(recorder) = recorder {
        recorder.run_upkeep();
    }
    if done.failures > 0 {
        return Err(format!("{} cycles failed", done.failures).into());
    }
    Ok(done.cycles as f64 / began.elapsed().as_secs_f64())
}
