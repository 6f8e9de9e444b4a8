//! A thousand waiters in one process, while another client holds the lock: what do the servers hear of them?

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::commands::{Commands, Meter};
use super::contender::Contender;
use super::row::{Row, Unit};
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "waiters";
const WAITERS: usize = 1_000;
/// How long the waiters are given to line up before it is counted.
const LINE_UP: Duration = Duration::from_millis(700);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let held = plan.pick(Duration::from_secs(10), Duration::from_secs(3));
    // The peer's waiters do not get less busy; a short while tells.
    let briefly = plan.pick(Duration::from_secs(2), Duration::from_millis(500));
    let cluster = RedisCluster::start(MASTERS).await;
    let ours = commands(&cluster, Contender::Ours, held).await?;
    let peer = commands(&cluster, Contender::Rslock, briefly).await?;
    let (us, them) = ([ours.0.sent as f64 / ours.1], [peer.0.sent as f64 / peer.1]);
    let figure = format!("{WAITERS} waiters of one process, key held {} s by another client: commands", held.as_secs());
    let row = Row::new(PART, figure, Unit::PerSecond, &us).against("rslock", &us, &them).own_at_most(10.0);
    Ok(vec![row.note(format!(
        "in all, the holder's renewals among them; after {LINE_UP:?} in which they line up; with calls inside of scripts {:.0}/s",
        ours.0.executed as f64 / ours.1
    ))])
}

/// What the servers are sent while the lock is held, and for how many seconds.
async fn commands(cluster: &RedisCluster, contender: Contender, held: Duration) -> Result<(Commands, f64), Failure> {
    let masters = crew::urls(cluster);
    let meter = Meter::connect(cluster).await?;
    let (holder, waiting) = (contender.connect(&masters).await?, contender.connect(&masters).await?);
    let key = fresh("waiters");
    let guard = holder.lock(&key).await?;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, key) = (waiting.clone(), key.clone());
        waiters.spawn(async move { locks.lock(&key).await.map(drop) });
    }
    sleep(LINE_UP).await;
    let (before, began) = (meter.read().await?, Instant::now());
    sleep(held.saturating_sub(LINE_UP)).await;
    let commands = meter.since(&before, contender != Contender::Ours).await?;
    let seconds = began.elapsed().as_secs_f64();
    if let Some(early) = waiters.try_join_next() {
        early??;
        return Err("a waiter has a lock that is held".into());
    }
    waiters.shutdown().await;
    guard.release().await?;
    Ok((commands, seconds))
}
