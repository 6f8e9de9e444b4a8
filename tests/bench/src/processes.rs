//! Several processes, one resource: how many cycles a second, how long is the longest wait, and is it fair?

use super::child::{ChildArgs, ChildProcess};
use super::commands::Meter;
use super::contender::Contender;
use super::load::LoadResult;
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "processes";
const PROCESSES: usize = 4;
const TASKS: usize = 16;
const CONTENDERS: [Contender; 4] = [Contender::Ours, Contender::Rslock1ms, Contender::Rslock50ms, Contender::Rslock];

/// How many milliseconds of work there are inside the lock.
const INSIDE: [u64; 2] = [1, 0];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let meter = Meter::connect(&cluster).await?;
    let mut rows = Vec::new();
    for inside in INSIDE {
        rows.extend(contended(plan, &cluster, &meter, inside).await?);
    }
    Ok(rows)
}

async fn contended(plan: &Plan, cluster: &RedisCluster, meter: &Meter, inside: u64) -> Result<Vec<Row>, BoxError> {
    let (rounds, millis) = plan.pick((3, 1_200), (1, 600));
    let (masters, mut all): (_, [Vec<Crowd>; 4]) = (child::urls(cluster), Default::default());
    let size = Size { processes: PROCESSES, instances: 1, tasks: TASKS, millis, inside };
    for _ in 0..rounds {
        for (contender, crowds) in CONTENDERS.into_iter().zip(&mut all) {
            crowds.push(crowd(plan, &masters, meter, contender, size).await?);
        }
    }
    let [ours, shortest_delay, ..] = &all;
    let figures = |crowds: &[Crowd], of: fn(&Crowd) -> f64| -> Vec<f64> { crowds.iter().map(of).collect() };
    let figure = format!("one key, {PROCESSES} processes x {TASKS} tasks, {inside} ms inside");
    let failures = |crowds: &[Crowd]| crowds.iter().map(Crowd::failures).sum();
    let row = |what: &str, unit, of: fn(&Crowd) -> f64, peer: usize| {
        let (ours, theirs) = (figures(ours, of), figures(&all[peer], of));
        Row::new(PART, format!("{figure}: {what}"), unit, &ours).against(CONTENDERS[peer].name(), &ours, &theirs)
    };
    let waited = |peer: usize| {
        let waits = super::Spread::of(&figures(&all[peer], Crowd::longest_wait));
        format!("{}: {:.1}", CONTENDERS[peer].name(), waits.map_or(f64::NAN, |waits| waits.median))
    };
    let waits = "in an ideal queue, a wait is one cycle of every task, at the measured rate; unfinished waits count up to the end";
    Ok(vec![
        row("cycles", Unit::PerSecond, Crowd::per_second, 1)
            .at_least(2.3)
            .failures("ours", failures(ours))
            .failures("rslock", failures(shortest_delay)),
        row("cycles", Unit::PerSecond, Crowd::per_second, 2),
        row("cycles", Unit::PerSecond, Crowd::per_second, 3),
        row("longest wait, in waits of an ideal queue", Unit::Number, Crowd::longest_wait, 1)
            .own_at_most(2.0)
            .note(waits)
            .note(waited(2))
            .note(waited(3)),
        row("commands a cycle", Unit::Number, |crowd| crowd.commands, 1).own_at_most(20.0),
        row("largest deviation from an equal share per process", Unit::Number, Crowd::unfairness, 1).own_at_most(0.1),
    ])
}

/// The size of a crowd, and its work.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) processes: usize,
    /// In each process, with connections of their own.
    pub(super) instances: usize,
    /// In each instance.
    pub(super) tasks: usize,
    pub(super) millis: u64,
    /// How many milliseconds each task works while it holds the lock.
    pub(super) inside: u64,
}

/// What the instances achieved.
pub(super) struct Crowd {
    each: Vec<LoadResult>,
    tasks: usize,
    /// Commands a cycle.
    pub(super) commands: f64,
}

impl Crowd {
    fn cycles(&self) -> f64 {
        self.each.iter().map(|done| done.cycles as f64).sum()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.each.iter().map(LoadResult::per_second).sum()
    }

    /// The longest wait, in units of the time in which every task could have had one cycle.
    pub(super) fn longest_wait(&self) -> f64 {
        self.in_ideal_waits(|done| done.longest_wait)
    }

    /// For how long it was measured, in the same unit. No wait is longer.
    pub(super) fn length(&self) -> f64 {
        self.in_ideal_waits(|done| done.seconds)
    }

    fn in_ideal_waits(&self, of: fn(&LoadResult) -> f64) -> f64 {
        let tasks = (self.each.len() * self.tasks) as f64;
        self.each.iter().map(of).fold(0.0, f64::max) * self.per_second() / tasks
    }

    /// How many callers were told that there is no quorum.
    pub(super) fn no_quorum(&self) -> f64 {
        self.each.iter().map(|done| done.no_quorum as f64).sum()
    }

    /// How many instances had no cycle.
    pub(super) fn without_a_turn(&self) -> f64 {
        self.each.iter().filter(|done| done.cycles == 0).count() as f64
    }

    pub(super) fn failures(&self) -> u64 {
        self.each.iter().map(|done| done.failures).sum()
    }

    /// The largest deviation of the share of an instance from an equal share, relative to that.
    fn unfairness(&self) -> f64 {
        let equal_share = self.cycles() / self.each.len() as f64;
        if equal_share == 0.0 {
            return 1.0;
        }
        self.each.iter().map(|done| (done.cycles as f64 / equal_share - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Lets processes of one contender compete for one resource.
pub(super) async fn crowd(
    plan: &Plan,
    masters: &[String],
    meter: &Meter,
    contender: Contender,
    size: Size,
) -> Result<Crowd, BoxError> {
    crowd_beside(plan, masters, meter, contender, size, || ()).await
}

/// Lets processes of one contender compete for one resource, beside what `disturb` begins when all are connected. It ends when what is
/// returned is dropped.
pub(super) async fn crowd_beside<T>(
    plan: &Plan,
    masters: &[String],
    meter: &Meter,
    contender: Contender,
    Size { processes, instances, tasks, millis, inside }: Size,
    disturb: impl FnOnce() -> T,
) -> Result<Crowd, BoxError> {
    let resource = fresh("crowd");
    let more =
        [("--instances", instances as u64), ("--tasks", tasks as u64), ("--millis", millis), ("--inside", inside)];
    let more = more.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]).collect();
    let args = ChildArgs { role: "load", contender, masters, resource: &resource, more };
    let mut children = Vec::new();
    for _ in 0..processes {
        children.push(ChildProcess::start(plan, &args).await?);
    }
    let before = meter.read().await?;
    let disturbance = disturb();
    for process in &mut children {
        process.begin().await?;
    }
    let mut each: Vec<LoadResult> = Vec::new();
    for process in &mut children {
        each.extend(process.reply::<Vec<LoadResult>>().await?);
    }
    drop(disturbance);
    let sent = meter.since(&before, contender != Contender::Ours).await?.sent;
    for process in children {
        process.end().await?;
    }
    let cycles: u64 = each.iter().map(|done| done.cycles).sum();
    Ok(Crowd { each, tasks, commands: sent as f64 / cycles.max(1) as f64 })
}
