//! A thousand waiters in one process, while another client holds the lock: how many commands do the servers get?

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::commands::{Commands, Meter};
use super::contender::Contender;
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "waiters";
const WAITERS: usize = 1_000;
/// How long the waiters have to join the queue before commands are counted.
const QUEUE_UP: Duration = Duration::from_millis(700);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let held = plan.pick(Duration::from_secs(10), Duration::from_secs(3));
    // The rate of the peer's waiters does not fall, so a short time is enough.
    let briefly = plan.pick(Duration::from_secs(2), Duration::from_millis(500));
    let cluster = RedisCluster::start(MASTERS).await;
    let ours = commands(&cluster, Contender::Ours, held).await?;
    let peer = commands(&cluster, Contender::Rslock, briefly).await?;
    let (ours_rate, peer_rate) = ([ours.0.sent as f64 / ours.1], [peer.0.sent as f64 / peer.1]);
    let figure = format!("{WAITERS} waiters of one process, key held {} s by another client: commands", held.as_secs());
    let row =
        Row::new(PART, figure, Unit::PerSecond, &ours_rate).against("rslock", &ours_rate, &peer_rate).own_at_most(10.0);
    Ok(vec![row.note(format!(
        "in total, including the holder's renewals, after the {QUEUE_UP:?} in which they join the queue; including calls inside of scripts {:.0}/s",
        ours.0.executed as f64 / ours.1
    ))])
}

/// The commands that the servers get while the lock is held, and for how many seconds.
async fn commands(cluster: &RedisCluster, contender: Contender, held: Duration) -> Result<(Commands, f64), BoxError> {
    let masters = child::urls(cluster);
    let meter = Meter::connect(cluster).await?;
    let (holder, waiting) = (contender.connect(&masters).await?, contender.connect(&masters).await?);
    let resource = fresh("waiters");
    let guard = holder.lock(&resource).await?;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, resource) = (waiting.clone(), resource.clone());
        waiters.spawn(async move { locks.lock(&resource).await.map(drop) });
    }
    sleep(QUEUE_UP).await;
    let (before, began) = (meter.read().await?, Instant::now());
    sleep(held.saturating_sub(QUEUE_UP)).await;
    let commands = meter.since(&before, contender != Contender::Ours).await?;
    let seconds = began.elapsed().as_secs_f64();
    if let Some(early) = waiters.try_join_next() {
        early??;
        return Err("a waiter was granted a lock that is held".into());
    }
    waiters.shutdown().await;
    guard.release().await?;
    Ok((commands, seconds))
}
