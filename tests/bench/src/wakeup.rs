//! How long after a release is the lock granted to a waiter?

use std::time::Duration;

use tokio::time::sleep;

use super::child::{ChildArgs, ChildProcess};
use super::contender::{Contender, Held, Locks};
use super::raw_quorum::RawQuorum;
use super::row::{Row, Unit};
use super::spread::p50;
use super::uncontended::fan_out;
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::{Dice, RedisCluster};

const PART: &str = "wakeup";
/// How many raw fan-outs there are in each round.
const FAN_OUTS: usize = 40;

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, wakeups) = plan.pick((5, 15), (2, 6));
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = child::urls(&cluster);
    let raw = RawQuorum::connect(&masters).await?;
    let mut ours = Pair::start(plan, &masters, Contender::Ours).await?;
    let mut peer = Pair::start(plan, &masters, Contender::Rslock1ms).await?;
    let (mut ours_times, mut peer_times, mut same_process) = (Vec::new(), Vec::new(), Vec::new());
    let (mut floor, mut after_idle) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours_times.push(ours.release_to_grant(wakeups).await?);
        floor.push(fan_out(&raw, FAN_OUTS, false).await?);
        after_idle.push(ours.fan_out_after_idle(&raw, wakeups).await?);
        peer_times.push(peer.release_to_grant(wakeups).await?);
        same_process.push(within(&ours.locks, wakeups).await?);
    }
    ours.waiter.end().await?;
    peer.waiter.end().await?;
    let row = |figure: &str, ours: &[f64]| Row::new(PART, figure, Unit::Seconds, ours);
    let elsewhere = "release to grant, waiter in another process, p50";
    Ok(vec![
        row(elsewhere, &ours_times).against("raw quorum fan-out (SET NX PX)", &ours_times, &floor).at_most(6.0),
        row(elsewhere, &ours_times)
            .against("raw quorum fan-out after the same idle time", &ours_times, &after_idle)
            .at_most(3.5),
        row(elsewhere, &ours_times).against(Contender::Rslock1ms.name(), &ours_times, &peer_times),
        row("release to grant, waiter in the same process, p50", &same_process).at_most(50e-6),
    ])
}

/// A holder in this process, and a waiter in another one.
struct Pair {
    locks: Locks,
    waiter: ChildProcess,
    resource: String,
    dice: Dice,
}

impl Pair {
    async fn start(plan: &Plan, masters: &[String], contender: Contender) -> Result<Self, BoxError> {
        let resource = fresh("wakeup");
        let locks = contender.connect(masters).await?;
        let args = ChildArgs { role: "waiter", contender, masters, resource: &resource, more: Vec::new() };
        Ok(Self { locks, waiter: ChildProcess::start(plan, &args).await?, resource, dice: Dice::new(1) })
    }

    /// The time from the call of the release to the end of the waiter's acquisition; the median of several.
    async fn release_to_grant(&mut self, wakeups: usize) -> Result<f64, BoxError> {
        let mut times = Vec::new();
        for _ in 0..wakeups {
            let held = self.locks.lock(&self.resource).await?;
            self.waiter.begin().await?;
            self.waiter.reply::<String>().await?;
            // It is waiting by now.
            self.idle().await;
            let released = tokio::spawn(release(held)).await??;
            let granted: f64 = self.waiter.reply().await?;
            times.push(Duration::try_from_secs_f64(granted - released)?);
        }
        Ok(p50(times))
    }

    /// A random time, so that it does not fit the retry delay of the waiter.
    async fn idle(&mut self) {
        sleep(Duration::from_millis(10 + self.dice.roll(10))).await;
    }

    /// Fan-outs, each after the same idle time as a wake-up.
    async fn fan_out_after_idle(&mut self, raw: &RawQuorum, rounds: usize) -> Result<f64, BoxError> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.idle().await;
            times.push(Duration::try_from_secs_f64(fan_out(raw, 1, false).await?)?);
        }
        Ok(p50(times))
    }
}

/// Releases the lock, and returns when the release began.
async fn release(held: Held) -> Result<f64, BoxError> {
    let began = super::roles::now();
    held.release().await?;
    Ok(began)
}

/// The same time between two tasks that share a manager.
async fn within(locks: &Locks, wakeups: usize) -> Result<f64, BoxError> {
    let resource = fresh("within");
    let mut times = Vec::new();
    for _ in 0..wakeups {
        let held = locks.lock(&resource).await?;
        let (locks, resource) = (locks.clone(), resource.clone());
        let waiting = tokio::spawn(async move {
            let held = locks.lock(&resource).await?;
            let granted = super::roles::now();
            held.release().await?;
            Ok::<_, BoxError>(granted)
        });
        sleep(Duration::from_millis(5)).await;
        let released = tokio::spawn(release(held)).await??;
        times.push(Duration::try_from_secs_f64(waiting.await?? - released)?);
    }
    Ok(p50(times))
}
