//! No contention: how long does a lock take?

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::contender::{Contender, Locks};
use super::raw_quorum::RawQuorum;
use super::row::{Row, Unit};
use super::spread::p50;
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "uncontended";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, cycles) = plan.pick((25, 100), (5, 40));
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = child::urls(&cluster);
    let ours = Contender::Ours.connect(&masters).await?;
    let peer = Contender::Rslock.connect(&masters).await?;
    let raw = RawQuorum::connect(&masters).await?;
    let (mut ours_times, mut peer_times, mut floor, mut scripted) =
        (Times::default(), Times::default(), Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=rounds {
        let (ours_cycle, peer_cycle) = (cycle(&ours, cycles).await?, cycle(&peer, cycles).await?);
        let (set, script) = (fan_out(&raw, cycles, false).await?, fan_out(&raw, cycles, true).await?);
        if round > 0 {
            ours_times.push(ours_cycle);
            peer_times.push(peer_cycle);
            floor.push(set);
            scripted.push(script);
        }
    }
    let row = |figure: &str, ours: &[f64]| Row::new(PART, figure, Unit::Seconds, ours);
    Ok(vec![
        row("lock + unlock alone, release awaited, p50", &ours_times.whole)
            .against("rslock", &ours_times.whole, &peer_times.whole)
            .at_most(0.75),
        row("acquire alone, p50", &ours_times.acquire)
            .against("raw quorum fan-out (SET NX PX)", &ours_times.acquire, &floor)
            .at_most(1.6)
            .note("raw: five connections, the command to each at once, done at the third reply"),
        row("acquire alone, p50", &ours_times.acquire).against("the same with EVALSHA", &ours_times.acquire, &scripted),
        row("acquire alone, p50", &ours_times.acquire).against("rslock", &ours_times.acquire, &peer_times.acquire),
    ])
}

/// The medians of each round.
#[derive(Default)]
struct Times {
    acquire: Vec<f64>,
    whole: Vec<f64>,
}

impl Times {
    fn push(&mut self, (acquire, whole): (f64, f64)) {
        self.acquire.push(acquire);
        self.whole.push(whole);
    }
}

/// Locks and unlocks repeatedly in a task. Returns the medians of the acquisition and of the whole cycle.
pub(super) async fn cycle(locks: &Locks, cycles: usize) -> Result<(f64, f64), BoxError> {
    let [acquire, whole] = times(locks, cycles, Duration::ZERO).await?;
    Ok((p50(acquire), p50(whole)))
}

/// Locks and unlocks repeatedly in a task, and rests after each cycle. Returns the times of all acquisitions, and of all
/// whole cycles.
pub(super) async fn times(locks: &Locks, cycles: usize, rest: Duration) -> Result<[Vec<Duration>; 2], BoxError> {
    let (locks, resource) = (locks.clone(), fresh("uncontended"));
    let cycling = tokio::spawn(async move {
        let (mut acquire, mut whole) = (Vec::with_capacity(cycles), Vec::with_capacity(cycles));
        for _ in 0..cycles {
            let began = Instant::now();
            let held = locks.lock(&resource).await?;
            acquire.push(began.elapsed());
            held.release().await?;
            whole.push(began.elapsed());
            if !rest.is_zero() {
                sleep(rest).await;
            }
        }
        Ok([acquire, whole])
    });
    cycling.await?
}

/// Raw fan-outs, one after the other, in a task. Returns the median.
pub(super) async fn fan_out(raw: &RawQuorum, rounds: usize, script: bool) -> Result<f64, BoxError> {
    let (raw, key) = (raw.clone(), fresh("raw"));
    let measuring = tokio::spawn(async move {
        let mut times: Vec<Duration> = Vec::with_capacity(rounds);
        for index in 0..rounds {
            let key = format!("{key}:{index}");
            let began = Instant::now();
            if script {
                raw.script(&key).await?;
            } else {
                raw.set(&key).await?;
            }
            times.push(began.elapsed());
        }
        Ok(p50(times))
    });
    measuring.await?
}
