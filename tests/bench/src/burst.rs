//! Many free keys at once, as after a deployment or a pause: is every lock granted, how fast, and with how much memory?

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::child::{ChildArgs, ChildProcess};
use super::contender::{Contender, Locks};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "burst";
/// How many locks are taken at once.
const TASKS: [usize; 3] = [64, 1_000, 20_000];
/// How long each task waits for its lock at most.
const WAIT: Duration = Duration::from_secs(20);
const CONTENDERS: [Contender; 2] = [Contender::OursByDefault, Contender::Rslock];

/// What became of some bursts, one after the other.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bursts {
    /// How many locks were taken and released.
    pub(super) done: u64,
    pub(super) failures: u64,
    pub(super) seconds: f64,
    /// The most resident memory of the process, in bytes.
    pub(super) peak: f64,
}

impl Bursts {
    fn per_second(&self) -> f64 {
        self.done as f64 / self.seconds
    }
}

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let masters = child::urls(&cluster);
    let mut rows = Vec::new();
    let mut of_few: Option<Vec<f64>> = None;
    for tasks in TASKS {
        let bursts = (TASKS[2] / tasks).min(plan.pick(100, 20));
        let mut all: [Vec<Bursts>; 2] = Default::default();
        for _ in 0..plan.pick(3, 1) {
            for (contender, measured) in CONTENDERS.into_iter().zip(&mut all) {
                measured.push(in_a_process(plan, &masters, contender, tasks, bursts).await?);
            }
        }
        rows.extend(rows_of(tasks, &all));
        let goodput = figures(&all[0], Bursts::per_second);
        if let Some(few) = &of_few {
            let row = Row::new(PART, figure(tasks, "taken and released"), Unit::PerSecond, &goodput);
            rows.push(row.against(format!("ours, {} at once", TASKS[0]), &goodput, few).at_least(0.8));
        }
        of_few.get_or_insert(goodput);
    }
    Ok(rows)
}

/// The bursts of one contender, in a process of their own, because of the memory.
async fn in_a_process(
    plan: &Plan,
    masters: &[String],
    contender: Contender,
    tasks: usize,
    bursts: usize,
) -> Result<Bursts, BoxError> {
    let resource = fresh("burst");
    let more = ["--tasks", &tasks.to_string(), "--bursts", &bursts.to_string()].map(String::from).into();
    let args = ChildArgs { role: "burst", contender, masters, resource: &resource, more };
    let mut process = ChildProcess::start(plan, &args).await?;
    process.begin().await?;
    let measured = process.reply().await?;
    process.end().await?;
    Ok(measured)
}

fn rows_of(tasks: usize, [ours, peer]: &[Vec<Bursts>; 2]) -> [Row; 3] {
    let row = |what: &str, unit, of: fn(&Bursts) -> f64| {
        let rounds = figures(ours, of);
        Row::new(PART, figure(tasks, what), unit, &rounds).against("rslock", &rounds, &figures(peer, of))
    };
    [
        row("taken and released", Unit::PerSecond, Bursts::per_second),
        row("failed", Unit::Number, |bursts| bursts.failures as f64).own_at_most(0.0),
        row("most memory of the process", Unit::Bytes, |bursts| bursts.peak),
    ]
}

fn figures(bursts: &[Bursts], of: fn(&Bursts) -> f64) -> Vec<f64> {
    bursts.iter().map(of).collect()
}

fn figure(tasks: usize, what: &str) -> String {
    format!("{tasks} free locks at once, wait {} s, five masters: {what}", WAIT.as_secs())
}

/// Takes free locks at once and releases them. Returns how many were, and how many failed.
pub(super) async fn at_once(locks: &Locks, tasks: usize, stem: &str) -> Result<(u64, u64), BoxError> {
    let mut burst = JoinSet::new();
    for task in 0..tasks {
        let (locks, resource) = (locks.clone(), format!("{stem}:{task}"));
        burst.spawn(async move { locks.lock_within(&resource, WAIT).await?.release().await });
    }
    let (mut done, mut failures) = (0, 0);
    while let Some(taken) = burst.join_next().await {
        match taken? {
            Ok(()) => done += 1,
            Err(_) => failures += 1,
        }
    }
    Ok((done, failures))
}
