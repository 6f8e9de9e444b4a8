//! Many locks held at a time: what do they weigh, and what do they cost while they are held?

use super::contender::Contender;
use super::crew::{Errand, Hand};
use super::roles::Holding;
use super::row::{Row, Unit};
use super::{Failure, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "held";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (locks, millis) = plan.pick((100_000_u32, 10_000_u32), (10_000, 2_000));
    let cluster = RedisCluster::start(1).await;
    let (masters, key) = (crew::urls(&cluster), fresh("held"));
    let more = ["--locks", &locks.to_string(), "--millis", &millis.to_string()].map(String::from).into();
    let errand = Errand { role: "holder", contender: Contender::Ours, masters: &masters, key: &key, more };
    let mut holder = Hand::start(plan, &errand).await?;
    holder.begin().await?;
    let holding: Holding = holder.answer().await?;
    holder.end().await?;
    let row = |what: &str, unit, figure| {
        Row::new(PART, format!("{locks} locks held by one process, one master: {what}"), unit, &[figure])
    };
    let rate = f64::from(locks) / holding.seconds;
    Ok(vec![
        row("memory for each", Unit::Bytes, holding.grown / f64::from(locks))
            .note("what the process grew by (resident), with what taking them from 64 tasks left behind"),
        row("processor time for each second", Unit::Seconds, holding.cpu)
            .note(format!("over {} s, renewals among it; taken at {rate:.0}/s", f64::from(millis) / 1e3)),
    ])
}
