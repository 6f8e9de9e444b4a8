//! How long after a release does a waiter have the lock?

use std::time::Duration;

use tokio::time::sleep;

use super::alone::fan_out;
use super::contender::{Contender, Held, Locks};
use super::crew::{Errand, Hand};
use super::raw::RawQuorum;
use super::row::{Row, Unit};
use super::spread::p50;
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::{Dice, RedisCluster};

const PART: &str = "wakeup";
/// How many plain rounds there are for each round.
const PLAIN: usize = 40;

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (rounds, wakes) = plan.pick((5, 15), (2, 6));
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = crew::urls(&cluster);
    let raw = RawQuorum::connect(&cluster).await?;
    let mut ours = Pair::start(plan, &masters, Contender::Ours).await?;
    let mut peer = Pair::start(plan, &masters, Contender::Rslock1ms).await?;
    let (mut us, mut them, mut here) = (Vec::new(), Vec::new(), Vec::new());
    let (mut floor, mut rested) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        us.push(ours.wakes(wakes).await?);
        floor.push(fan_out(&raw, PLAIN, false).await?);
        rested.push(ours.fan_out_after_rest(&raw, wakes).await?);
        them.push(peer.wakes(wakes).await?);
        here.push(within(&ours.locks, wakes).await?);
    }
    ours.waiter.end().await?;
    peer.waiter.end().await?;
    let row = |figure: &str, ours: &[f64]| Row::new(PART, figure, Unit::Seconds, ours);
    let other = "a waiter of another process has the lock after a release, p50";
    Ok(vec![
        row(other, &us).against("raw quorum fan-out (SET NX PX)", &us, &floor).at_most(6.0),
        row(other, &us).against("raw quorum fan-out after the same rest", &us, &rested),
        row(other, &us).against(Contender::Rslock1ms.name(), &us, &them),
        row("a waiter of the same process, p50", &here).at_most(50e-6),
    ])
}

/// A holder here, and a waiter in another process.
struct Pair {
    locks: Locks,
    waiter: Hand,
    key: String,
    dice: Dice,
}

impl Pair {
    async fn start(plan: &Plan, masters: &[String], contender: Contender) -> Result<Self, Failure> {
        let key = fresh("wakeup");
        let locks = contender.connect(masters).await?;
        let errand = Errand { role: "waiter", contender, masters, key: &key, more: Vec::new() };
        Ok(Self { locks, waiter: Hand::start(plan, &errand).await?, key, dice: Dice::new(1) })
    }

    /// From the call of the release to the end of the waiter's acquisition; the median of so many.
    async fn wakes(&mut self, wakes: usize) -> Result<f64, Failure> {
        let mut times = Vec::new();
        for _ in 0..wakes {
            let held = self.locks.lock(&self.key).await?;
            self.waiter.begin().await?;
            self.waiter.answer::<String>().await?;
            // It waits by now.
            self.rest().await;
            let released = tokio::spawn(release(held)).await??;
            let came: f64 = self.waiter.answer().await?;
            times.push(Duration::try_from_secs_f64(came - released)?);
        }
        Ok(p50(times))
    }

    /// Not for ever the same time, so that no pause of the waiter's fits to it.
    async fn rest(&mut self) {
        sleep(Duration::from_millis(10 + self.dice.roll(10))).await;
    }

    /// A round when everybody has slept as long as before a wake.
    async fn fan_out_after_rest(&mut self, raw: &RawQuorum, rounds: usize) -> Result<f64, Failure> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.rest().await;
            times.push(Duration::try_from_secs_f64(fan_out(raw, 1, false).await?)?);
        }
        Ok(p50(times))
    }
}

/// Releases, and tells when that began.
async fn release(held: Held) -> Result<f64, Failure> {
    let began = super::roles::now();
    held.release().await?;
    Ok(began)
}

/// The same between two tasks that share a manager.
async fn within(locks: &Locks, wakes: usize) -> Result<f64, Failure> {
    let key = fresh("within");
    let mut times = Vec::new();
    for _ in 0..wakes {
        let held = locks.lock(&key).await?;
        let (locks, key) = (locks.clone(), key.clone());
        let waiting = tokio::spawn(async move {
            let held = locks.lock(&key).await?;
            let came = super::roles::now();
            held.release().await?;
            Ok::<_, Failure>(came)
        });
        sleep(Duration::from_millis(5)).await;
        let released = tokio::spawn(release(held)).await??;
        times.push(Duration::try_from_secs_f64(waiting.await?? - released)?);
    }
    Ok(p50(times))
}
