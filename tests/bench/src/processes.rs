//! Several processes, one key: how many cycles a second, how long does anybody wait, and who gets how much?

use super::commands::Meter;
use super::contender::Contender;
use super::crew::{Errand, Hand};
use super::load::Done;
use super::row::{Row, Unit};
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "processes";
const PROCESSES: usize = 4;
const TASKS: usize = 16;
const CONTENDERS: [Contender; 4] = [Contender::Ours, Contender::Rslock1ms, Contender::Rslock50ms, Contender::Rslock];

/// How many milliseconds of work there are inside the lock.
const INSIDE: [u64; 2] = [1, 0];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let cluster = RedisCluster::start(MASTERS).await;
    let meter = Meter::connect(&cluster).await?;
    let mut rows = Vec::new();
    for inside in INSIDE {
        rows.extend(fights(plan, &cluster, &meter, inside).await?);
    }
    Ok(rows)
}

async fn fights(plan: &Plan, cluster: &RedisCluster, meter: &Meter, inside: u64) -> Result<Vec<Row>, Failure> {
    let (rounds, millis) = plan.pick((3, 1_200), (1, 600));
    let mut all: [Vec<Crowd>; 4] = Default::default();
    for _ in 0..rounds {
        for (contender, crowds) in CONTENDERS.into_iter().zip(&mut all) {
            let size = Size { processes: PROCESSES, tasks: TASKS, millis, inside };
            crowds.push(crowd(plan, cluster, meter, contender, size).await?);
        }
    }
    let [ours, tightest, ..] = &all;
    let figures = |crowds: &[Crowd], of: fn(&Crowd) -> f64| -> Vec<f64> { crowds.iter().map(of).collect() };
    let figure = format!("one key, {PROCESSES} processes x {TASKS} tasks, {inside} ms inside");
    let failures = |crowds: &[Crowd]| crowds.iter().flat_map(|crowd| &crowd.each).map(|done| done.failures).sum();
    let row = |what: &str, unit, of: fn(&Crowd) -> f64, peer: usize| {
        let (ours, theirs) = (figures(ours, of), figures(&all[peer], of));
        Row::new(PART, format!("{figure}: {what}"), unit, &ours).against(CONTENDERS[peer].name(), &ours, &theirs)
    };
    let waited = |peer: usize| {
        let waits = super::Spread::of(&figures(&all[peer], Crowd::longest_wait));
        format!("{}: {:.1}", CONTENDERS[peer].name(), waits.map_or(f64::NAN, |waits| waits.median))
    };
    let waits =
        "an ideal wait is as many cycles as there are tasks, at the rate of its own; starved tasks count to the end";
    Ok(vec![
        row("cycles", Unit::PerSecond, Crowd::per_second, 1)
            .at_least(2.3)
            .failures("ours", failures(ours))
            .failures("rslock", failures(tightest)),
        row("cycles", Unit::PerSecond, Crowd::per_second, 2),
        row("cycles", Unit::PerSecond, Crowd::per_second, 3),
        row("longest wait, in ideal waits", Unit::Number, Crowd::longest_wait, 1)
            .own_at_most(2.0)
            .note(waits)
            .note(waited(2))
            .note(waited(3)),
        row("commands a cycle", Unit::Number, |crowd| crowd.commands, 1).own_at_most(20.0),
        row("share of a process off its due, at most", Unit::Number, Crowd::unfairness, 1).own_at_most(0.1),
    ])
}

/// How many fight, and how.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) processes: usize,
    /// In each process.
    pub(super) tasks: usize,
    pub(super) millis: u64,
    /// How many milliseconds each works with the lock.
    pub(super) inside: u64,
}

/// What came of some processes.
pub(super) struct Crowd {
    each: Vec<Done>,
    tasks: usize,
    /// For each cycle.
    commands: f64,
}

impl Crowd {
    fn cycles(&self) -> f64 {
        self.each.iter().map(|done| done.cycles as f64).sum()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.each.iter().map(Done::per_second).sum()
    }

    /// The longest wait, in units of the time in which every task could have had a turn.
    fn longest_wait(&self) -> f64 {
        let turns = (self.each.len() * self.tasks) as f64;
        self.each.iter().map(|done| done.longest_wait).fold(0.0, f64::max) * self.per_second() / turns
    }

    /// How far the share of any process is from an equal one, as a part of that.
    fn unfairness(&self) -> f64 {
        let due = self.cycles() / self.each.len() as f64;
        if due == 0.0 {
            return 1.0;
        }
        self.each.iter().map(|done| (done.cycles as f64 / due - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Lets processes of one contender fight for one key.
pub(super) async fn crowd(
    plan: &Plan,
    cluster: &RedisCluster,
    meter: &Meter,
    contender: Contender,
    Size { processes, tasks, millis, inside }: Size,
) -> Result<Crowd, Failure> {
    let (masters, key) = (crew::urls(cluster), fresh("crowd"));
    let more = [("--tasks", tasks as u64), ("--millis", millis), ("--inside", inside)];
    let more = more.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]).collect();
    let errand = Errand { role: "load", contender, masters: &masters, key: &key, more };
    let mut hands = Vec::new();
    for _ in 0..processes {
        hands.push(Hand::start(plan, &errand).await?);
    }
    let before = meter.read().await?;
    for hand in &mut hands {
        hand.begin().await?;
    }
    let mut each: Vec<Done> = Vec::new();
    for hand in &mut hands {
        each.push(hand.answer().await?);
    }
    let sent = meter.since(&before, contender != Contender::Ours).await?.sent;
    for hand in hands {
        hand.end().await?;
    }
    let cycles: u64 = each.iter().map(|done| done.cycles).sum();
    Ok(Crowd { each, tasks, commands: sent as f64 / cycles.max(1) as f64 })
}
