//! How the cost scales: with tasks, resources, masters, waiters, processes.

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use super::commands::Meter;
use super::contender::{Contender, Locks};
use super::handover::counted;
use super::load::{Load, Release, Resources};
use super::processes::{Size, crowd};
use super::uncontended::cycle;
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

/// One figure as a function of another.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name, and the stem of its file.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The label of the x axis: what is varied.
    pub x: &'static str,
    /// The label of the y axis: what is measured.
    pub y: &'static str,
    /// One line for each contender.
    pub series: Vec<Series>,
}

/// One contender's points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The name of the contender.
    pub name: &'static str,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
}

/// With more tasks than this on one key, the peer's tasks only load the machine.
const MAX_POLLERS: usize = 1_000;
/// The pause between two points.
const SETTLE: Duration = Duration::from_millis(20);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Curve>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let (tasks, resources) = (over_tasks(plan, &cluster).await?, over_keys(plan, &cluster).await?);
    let [waiters, commands] = over_waiters(plan, &cluster).await?;
    Ok(vec![tasks, resources, over_masters(plan).await?, waiters, commands, over_processes(plan, &cluster).await?])
}

fn length(plan: &Plan) -> Duration {
    plan.pick(Duration::from_millis(700), Duration::from_millis(120))
}

/// The engine, and the peer in one of its settings, with their points.
struct Both {
    contenders: [(Contender, Locks); 2],
    series: [Series; 2],
}

impl Both {
    async fn connect(cluster: &RedisCluster, peer: Contender) -> Result<Self, BoxError> {
        let urls = child::urls(cluster);
        let ours = (Contender::Ours, Contender::Ours.connect(&urls).await?);
        Ok(Self { contenders: [ours, (peer, peer.connect(&urls).await?)], series: series(peer) })
    }

    /// Measures a point of each: cycles a second.
    async fn point(&mut self, x: usize, load: impl Fn() -> Load) -> Result<(), BoxError> {
        for ((_, locks), series) in self.contenders.iter().zip(&mut self.series) {
            let done = load().run(locks).await?;
            series.points.push((x as f64, done.per_second()));
            sleep(SETTLE).await;
        }
        Ok(())
    }
}

fn series(peer: Contender) -> [Series; 2] {
    [Contender::Ours, peer].map(|contender| Series { name: contender.name(), points: Vec::new() })
}

async fn over_tasks(plan: &Plan, cluster: &RedisCluster) -> Result<Curve, BoxError> {
    let mut both = Both::connect(cluster, Contender::Rslock).await?;
    for tasks in [1, 4, 16, 64, 256, 1024] {
        let load = || {
            let resources = Resources::Distinct(fresh("tasks"));
            Load { tasks, length: length(plan), resources, release: Release::Awaited, inside: Duration::ZERO }
        };
        both.point(tasks, load).await?;
    }
    let title = "A key for each task, five masters";
    Ok(Curve { name: "tasks", title, x: "tasks", y: "cycles a second", series: both.series.into() })
}

async fn over_keys(plan: &Plan, cluster: &RedisCluster) -> Result<Curve, BoxError> {
    let mut both = Both::connect(cluster, Contender::Rslock50ms).await?;
    for resources in [1, 10, 100, 1_000, 10_000, 100_000] {
        let load = || {
            let resources = Resources::Any(fresh("keys"), resources);
            Load { tasks: 64, length: length(plan), resources, release: Release::Awaited, inside: Duration::ZERO }
        };
        both.point(resources, load).await?;
    }
    let title = "64 tasks, each cycle with a random one of many keys, five masters";
    Ok(Curve { name: "keys", title, x: "keys", y: "cycles a second", series: both.series.into() })
}

async fn over_masters(plan: &Plan) -> Result<Curve, BoxError> {
    let (rounds, cycles) = plan.pick((5, 80), (2, 20));
    let mut both = series(Contender::Rslock);
    for masters in [1, 3, 5, 7] {
        let cluster = RedisCluster::start(masters).await;
        let contenders = Both::connect(&cluster, Contender::Rslock).await?.contenders;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for ((_, locks), times) in contenders.iter().zip(&mut times) {
                times.push(cycle(locks, cycles).await?.1);
            }
        }
        for (series, times) in both.iter_mut().zip(&times) {
            let median = super::Spread::of(times).map_or(f64::NAN, |spread| spread.median);
            series.points.push((masters as f64, median * 1e6));
        }
    }
    let title = "Lock + unlock alone, release awaited";
    Ok(Curve { name: "masters", title, x: "masters", y: "microseconds, p50", series: both.into() })
}

/// Cycles a second, and commands a cycle.
async fn over_waiters(plan: &Plan, cluster: &RedisCluster) -> Result<[Curve; 2], BoxError> {
    let meter = Meter::connect(cluster).await?;
    let contenders = Both::connect(cluster, Contender::Rslock50ms).await?.contenders;
    let (mut rates, mut costs) = (series(Contender::Rslock50ms), series(Contender::Rslock50ms));
    for waiters in [1, 10, 100, 1_000, 10_000] {
        for (which, (contender, locks)) in contenders.iter().enumerate() {
            if *contender != Contender::Ours && waiters > MAX_POLLERS {
                continue;
            }
            let (done, commands) = counted(&meter, &[(locks.clone(), waiters)], length(plan)).await?;
            rates[which].points.push((waiters as f64, done.per_second()));
            if done.cycles > 0 {
                costs[which].points.push((waiters as f64, commands.sent as f64 / done.cycles as f64));
            }
            sleep(SETTLE).await;
        }
    }
    let (title, x) = ("One key, many tasks of one process, five masters", "tasks");
    Ok([
        Curve { name: "waiters", title, x, y: "cycles a second", series: rates.into() },
        Curve { name: "commands", title, x, y: "commands a cycle, all masters", series: costs.into() },
    ])
}

async fn over_processes(plan: &Plan, cluster: &RedisCluster) -> Result<Curve, BoxError> {
    let meter = Meter::connect(cluster).await?;
    let mut both = series(Contender::Rslock50ms);
    let millis = plan.pick(700, 150);
    for processes in [1, 2, 4, 8, 16] {
        let size = Size { processes, instances: 1, tasks: 4, millis, inside: 0 };
        for (contender, series) in [Contender::Ours, Contender::Rslock50ms].into_iter().zip(&mut both) {
            let crowd = crowd(plan, &child::urls(cluster), &meter, contender, size).await?;
            series.points.push((processes as f64, crowd.per_second()));
        }
    }
    let title = "One key, processes of four tasks, five masters";
    Ok(Curve { name: "processes", title, x: "processes", y: "cycles a second", series: both.into() })
}
