//! One resource, and instances that the masters cannot wake: how much of the rate is left, and does everybody get a turn?

use super::commands::Meter;
use super::contender::Contender;
use super::processes::{Crowd, Size, crowd};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child};
use lock_support::RedisCluster;

const PART: &str = "polling";
/// How many instances, each with a task.
const INSTANCES: usize = 64;
/// They share this many processes.
const PROCESSES: usize = 8;
/// How many milliseconds of work there are inside the lock.
const INSIDE: u64 = 2;

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(MASTERS).await;
    let (callable, meter) = (child::urls(&cluster), Meter::connect(&cluster).await?);
    let mut deaf = Vec::new();
    for server in &cluster.servers {
        server.query::<String>("ACL SETUSER deaf on >secret ~* &* +@all -subscribe -psubscribe -ssubscribe").await;
        deaf.push(format!("redis://deaf:secret@{}", server.address()));
    }
    let millis = plan.pick(10_000, 5_000);
    let size = Size { processes: PROCESSES, instances: INSTANCES / PROCESSES, tasks: 1, millis, inside: INSIDE };
    let (mut polling, mut called) = (Vec::new(), Vec::new());
    for _ in 0..plan.pick(3, 1) {
        for (masters, crowds) in [(&deaf, &mut polling), (&callable, &mut called)] {
            crowds.push(crowd(plan, masters, &meter, Contender::OursByDefault, size).await?);
        }
    }
    let figures = |crowds: &[Crowd], of: fn(&Crowd) -> f64| crowds.iter().map(of).collect::<Vec<f64>>();
    let row = |what: &str, unit, of: fn(&Crowd) -> f64| {
        let figure = format!("one key, {INSTANCES} instances that poll, {INSIDE} ms inside: {what}");
        let (ours, others) = (figures(&polling, of), figures(&called, of));
        Row::new(PART, figure, unit, &ours).against("ours, woken", &ours, &others)
    };
    Ok(vec![
        row("cycles", Unit::PerSecond, Crowd::per_second).at_least(0.5),
        row("script calls a cycle, on each master", Unit::Number, |crowd| crowd.commands / MASTERS as f64),
        row("longest wait, in waits of an ideal queue", Unit::Number, Crowd::longest_wait),
        row("instances without a turn", Unit::Number, Crowd::without_a_turn).own_at_most(0.0),
    ])
}
