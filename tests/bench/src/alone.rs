//! Nobody else wants the lock: how long does it take?

use std::time::{Duration, Instant};

use super::contender::{Contender, Locks};
use super::raw::RawQuorum;
use super::row::{Row, Unit};
use super::spread::p50;
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "alone";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (rounds, cycles) = plan.pick((25, 100), (5, 40));
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = crew::urls(&cluster);
    let ours = Contender::Ours.connect(&masters).await?;
    let peer = Contender::Rslock.connect(&masters).await?;
    let raw = RawQuorum::connect(&cluster).await?;
    let (mut us, mut them, mut floor, mut scripted) = (Times::default(), Times::default(), Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=rounds {
        let (our_cycle, their_cycle) = (cycle(&ours, cycles).await?, cycle(&peer, cycles).await?);
        let (set, script) = (fan_out(&raw, cycles, false).await?, fan_out(&raw, cycles, true).await?);
        if round > 0 {
            us.push(our_cycle);
            them.push(their_cycle);
            floor.push(set);
            scripted.push(script);
        }
    }
    let row = |figure: &str, ours: &[f64]| Row::new(PART, figure, Unit::Seconds, ours);
    Ok(vec![
        row("lock + unlock alone, release awaited, p50", &us.whole)
            .against("rslock", &us.whole, &them.whole)
            .at_most(0.75),
        row("acquire alone, p50", &us.acquire)
            .against("raw quorum fan-out (SET NX PX)", &us.acquire, &floor)
            .at_most(1.6)
            .note("raw: five connections, the command to each at once, done at the third answer"),
        row("acquire alone, p50", &us.acquire).against("the same with EVALSHA", &us.acquire, &scripted),
        row("acquire alone, p50", &us.acquire).against("rslock", &us.acquire, &them.acquire),
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

/// Locks and unlocks one after the other, in a task. The medians of the acquisition, and of the whole cycle.
pub(super) async fn cycle(locks: &Locks, cycles: usize) -> Result<(f64, f64), Failure> {
    let (locks, key) = (locks.clone(), fresh("alone"));
    let cycling = tokio::spawn(async move {
        let (mut acquire, mut whole) = (Vec::with_capacity(cycles), Vec::with_capacity(cycles));
        for _ in 0..cycles {
            let began = Instant::now();
            let held = locks.lock(&key).await?;
            acquire.push(began.elapsed());
            held.release().await?;
            whole.push(began.elapsed());
        }
        Ok((p50(acquire), p50(whole)))
    });
    cycling.await?
}

/// The median of plain rounds, one after the other, in a task.
pub(super) async fn fan_out(raw: &RawQuorum, rounds: usize, script: bool) -> Result<f64, Failure> {
    let (raw, key) = (raw.clone(), fresh("raw"));
    let going = tokio::spawn(async move {
        let mut times: Vec<Duration> = Vec::with_capacity(rounds);
        for number in 0..rounds {
            let key = format!("{key}:{number}");
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
    going.await?
}
