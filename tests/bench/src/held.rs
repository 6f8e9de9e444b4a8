//! Many locks held at a time: how much memory and processor time does each take?

use super::child::{ChildArgs, ChildProcess};
use super::contender::Contender;
use super::roles::Holding;
use super::row::{Row, Unit};
use super::{BoxError, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "held";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (locks, millis) = plan.pick((100_000_u32, 10_000_u32), (10_000, 2_000));
    let cluster = RedisCluster::start(1).await;
    let (masters, resource) = (child::urls(&cluster), fresh("held"));
    let more = ["--locks", &locks.to_string(), "--millis", &millis.to_string()].map(String::from).into();
    let args = ChildArgs { role: "holder", contender: Contender::Ours, masters: &masters, resource: &resource, more };
    let mut holder = ChildProcess::start(plan, &args).await?;
    holder.begin().await?;
    let holding: Holding = holder.reply().await?;
    holder.end().await?;
    let row = |what: &str, unit, figure| {
        Row::new(PART, format!("{locks} locks held by one process, one master: {what}"), unit, &[figure])
    };
    let rate = f64::from(locks) / holding.seconds;
    Ok(vec![
        row("memory for each", Unit::Bytes, holding.grown / f64::from(locks))
            .note("growth of the resident memory, including what the 64 tasks that took them left behind"),
        row("processor time for each second", Unit::Seconds, holding.cpu)
            .note(format!("over {} s, including renewals; taken at {rate:.0}/s", f64::from(millis) / 1e3)),
    ])
}
