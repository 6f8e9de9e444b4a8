//! One resource that many read and one writes now and then: how many reads are there, and how long does the writer wait? And when does
//! the last of those that share one hold learn that it is lost?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::{Kind, LockManager};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "readers";
/// Managers with connections of their own, as of as many processes.
const MANAGERS: usize = 4;
const READERS: usize = 64;
const WORK: Duration = Duration::from_millis(1);
/// How long the writer pauses between its turns.
const PAUSE: Duration = Duration::from_millis(100);
const WAIT: Duration = Duration::from_secs(10);
/// The readers that share one hold, and its time to live.
const SHARING: usize = 400;
const TTL: Duration = Duration::from_secs(3);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, length) = plan.pick((3, Duration::from_secs(4)), (1, Duration::from_secs(1)));
    let cluster = RedisCluster::start(MASTERS).await;
    let (mut alone, mut excluding, mut reads, mut waits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut told = Vec::new();
    for _ in 0..rounds {
        told.push(until_all_are_told(&cluster).await?);
        alone.push(run(&cluster, length, Kind::Read, false).await?.reads);
        excluding.push(run(&cluster, length, Kind::Write, false).await?.reads);
        let ran = run(&cluster, length, Kind::Read, true).await?;
        reads.push(ran.reads);
        waits.push(ran.longest_wait);
    }
    let readers = format!("{READERS} readers of {MANAGERS} managers, 1 ms inside");
    Ok(vec![
        Row::new(PART, format!("{readers}: reads"), Unit::PerSecond, &alone).against(
            "the same with lock()",
            &alone,
            &excluding,
        ),
        Row::new(PART, format!("{readers}, and a writer each 100 ms: reads"), Unit::PerSecond, &reads),
        Row::new(PART, format!("{readers}: longest wait of the writer"), Unit::Seconds, &waits),
        Row::new(
            PART,
            format!("{SHARING} readers of one hold that is evicted: the last is told, of their ttl"),
            Unit::Number,
            &told,
        )
        .own_at_most(0.34),
    ])
}

/// After which part of their time to live the last of the readers that share one hold learns that they were evicted.
async fn until_all_are_told(cluster: &RedisCluster) -> Result<f64, BoxError> {
    let (masters, resource) = (child::urls(cluster), fresh("told"));
    let locks = LockManager::builder().redis(masters.clone()).ttl(TTL).wait(WAIT).connect().await?;
    let mut readers = JoinSet::new();
    for _ in 0..SHARING {
        let held = locks.read(&resource).acquire().await?;
        readers.spawn(async move {
            held.lost().await;
            Instant::now()
        });
    }
    let operator = LockManager::builder().redis(masters).connect().await?;
    // Whenever in their rounds of renewal that is.
    sleep(TTL / 2).await;
    let evicted = Instant::now();
    operator.force_release(&resource).await?;
    let last = readers.join_all().await.into_iter().max().unwrap_or(evicted);
    Ok((last - evicted).as_secs_f64() / TTL.as_secs_f64())
}

struct Ran {
    /// A second.
    reads: f64,
    /// Of the writer, in seconds.
    longest_wait: f64,
}

/// Runs the readers, whose locks are of this kind, and the writer if it writes.
async fn run(cluster: &RedisCluster, length: Duration, kind: Kind, writes: bool) -> Result<Ran, BoxError> {
    let (masters, resource, reads) = (child::urls(cluster), fresh("readers"), Arc::new(AtomicU64::new(0)));
    let mut readers = JoinSet::new();
    for _ in 0..MANAGERS {
        let locks = LockManager::builder().redis(masters.clone()).wait(WAIT).connect().await?;
        for _ in 0..READERS / MANAGERS {
            readers.spawn(read(locks.clone(), resource.clone(), kind, Arc::clone(&reads)));
        }
    }
    let writer = LockManager::builder().redis(masters).wait(WAIT).connect().await?;
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < length {
        sleep(PAUSE).await;
        if writes {
            let asked = Instant::now();
            let held = writer.lock(&resource).acquire().await?;
            longest = longest.max(asked.elapsed());
            sleep(WORK).await;
            held.release().await?;
        }
    }
    let reads = reads.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    if let Some(failed) = readers.try_join_next() {
        failed??;
    }
    readers.shutdown().await;
    Ok(Ran { reads, longest_wait: longest.as_secs_f64() })
}

/// Reads until it is aborted.
async fn read(locks: LockManager, resource: String, kind: Kind, reads: Arc<AtomicU64>) -> Result<(), BoxError> {
    loop {
        let _held = locks.lock(&resource).kind(kind).acquire().await?;
        sleep(WORK).await;
        reads.fetch_add(1, Ordering::Relaxed);
    }
}
