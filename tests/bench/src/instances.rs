//! One resource, up to hundreds of instances of a service with a task each: does the rate hold, and does everybody get a
//! turn?

use super::commands::Meter;
use super::contender::Contender;
use super::processes::{Crowd, Size, crowd};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child};
use lock_support::RedisCluster;

const PART: &str = "instances";
/// How many milliseconds of work there are inside the lock.
const INSIDE: u64 = 2;
/// The instances share this many processes at most: each has connections and a place in the queues of its own, and more
/// processes would only measure the scheduler of the machine.
const MAX_PROCESSES: usize = 8;

/// How many instances, which settings of the peer may be its best, and the most commands a cycle.
const CROWDS: [(usize, [Contender; 2], Option<f64>); 4] = [
    (4, [Contender::Rslock1ms, Contender::Rslock50ms], Some(20.0)),
    (32, [Contender::Rslock50ms, Contender::Rslock], Some(30.0)),
    (128, [Contender::Rslock, Contender::Rslock1s], None),
    (256, [Contender::Rslock, Contender::Rslock1s], None),
];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let (masters, meter) = (child::urls(&cluster), Meter::connect(&cluster).await?);
    let mut rows = Vec::new();
    let mut of_few: Option<Vec<f64>> = None;
    for (instances, peers, commands) in CROWDS {
        let processes = instances.min(MAX_PROCESSES);
        // Some ideal waits.
        let millis = (instances as u64 * plan.pick(40, 10)).max(plan.pick(2_000, 500));
        let size = Size { processes, instances: instances / processes, tasks: 1, millis, inside: INSIDE };
        let mut all: [Vec<Crowd>; 3] = Default::default();
        let rounds = if instances <= 32 { plan.pick(2, 1) } else { 1 };
        for _ in 0..rounds {
            for (contender, crowds) in [Contender::Ours, peers[0], peers[1]].into_iter().zip(&mut all) {
                crowds.push(crowd(plan, &masters, &meter, contender, size).await?);
            }
        }
        let [ours, ..] = &all;
        let rate = figures(ours, Crowd::per_second);
        rows.extend(rows_of(instances, &all, peers, commands));
        if let Some(few) = &of_few {
            let figure = figure(instances, "cycles");
            let row = Row::new(PART, figure, Unit::PerSecond, &rate);
            rows.push(row.against(format!("ours, {} instances", CROWDS[0].0), &rate, few).at_least(0.8));
        }
        of_few.get_or_insert(rate);
    }
    Ok(rows)
}

fn rows_of(
    instances: usize,
    [ours, peers @ ..]: &[Vec<Crowd>; 3],
    names: [Contender; 2],
    most: Option<f64>,
) -> [Row; 4] {
    let rate = |crowds| super::Spread::of(&figures(crowds, Crowd::per_second)).map_or(0.0, |spread| spread.median);
    let best = usize::from(rate(&peers[1]) > rate(&peers[0]));
    let (peer, name) = (&peers[best], names[best].name());
    let row = |what: &str, unit, of: fn(&Crowd) -> f64| {
        let rounds = figures(ours, of);
        Row::new(PART, figure(instances, what), unit, &rounds).against(name, &rounds, &figures(peer, of))
    };
    let failures = |crowds: &[Crowd]| crowds.iter().map(Crowd::failures).sum();
    let commands = row("commands a cycle", Unit::Number, |crowd| crowd.commands);
    [
        row("cycles", Unit::PerSecond, Crowd::per_second)
            .note(format!("{}: {:.0}/s", names[1 - best].name(), rate(&peers[1 - best])))
            .failures("ours", failures(ours))
            .failures(name, failures(peer)),
        row("longest wait, in waits of an ideal queue", Unit::Number, Crowd::longest_wait).own_at_most(2.0).note(format!(
            "in an ideal queue, a wait is one cycle of every instance, at the measured rate; measured for {:.1} of them",
            super::Spread::of(&figures(ours, Crowd::length)).map_or(0.0, |spread| spread.median)
        )),
        row("instances without a turn", Unit::Number, Crowd::without_a_turn).own_at_most(0.0),
        if let Some(most) = most { commands.own_at_most(most) } else { commands },
    ]
}

fn figures(crowds: &[Crowd], of: fn(&Crowd) -> f64) -> Vec<f64> {
    crowds.iter().map(of).collect()
}

fn figure(instances: usize, what: &str) -> String {
    format!("one key, {instances} instances of one task, {INSIDE} ms inside: {what}")
}
