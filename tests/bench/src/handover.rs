//! One key, many waiters: what does a cycle cost the servers, and does it grow?

use std::time::Duration;

use super::commands::{Commands, Meter};
use super::contender::{Contender, Locks};
use super::load::{Done, Keys, Load, Release};
use super::row::{Row, Unit};
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "handover";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (rounds, length) = plan.pick((2, Duration::from_millis(600)), (1, Duration::from_millis(250)));
    let cluster = RedisCluster::start(MASTERS).await;
    let urls = crew::urls(&cluster);
    let meter = Meter::connect(&cluster).await?;
    let ours = Contender::Ours.connect(&urls).await?;
    let peer = Contender::Rslock50ms.connect(&urls).await?;
    let mut rows = Vec::new();
    for tasks in [4, 64, 1024] {
        let figure = format!("commands a cycle, one key, {tasks} tasks of one process");
        let alike = [(ours.clone(), tasks)];
        let mut us = Counted::default();
        for _ in 0..rounds {
            us.add(&meter, &alike, length).await?;
        }
        // A thousand of the peer's tasks would only be counted timing out.
        let mut row = Row::new(PART, figure, Unit::Number, &us.sent);
        if tasks <= 64 {
            let mut them = Counted::default();
            for _ in 0..rounds {
                them.add(&meter, &[(peer.clone(), tasks)], length).await?;
            }
            row = row.against(Contender::Rslock50ms.name(), &us.sent, &them.sent).notes_of(&them, "rslock");
        }
        rows.push(row.own_at_most(2.0).notes_of(&us, "ours"));
    }
    let mut none_handed_over = async |figure: String, crowd: Vec<(Locks, usize)>, most: Option<f64>| {
        let mut us = Counted::default();
        for _ in 0..rounds {
            us.add(&meter, &crowd, length).await?;
        }
        let row = Row::new(PART, figure, Unit::Number, &us.sent).notes_of(&us, "ours");
        rows.push(if let Some(most) = most { row.own_at_most(most) } else { row });
        Ok::<_, Failure>(())
    };
    let alone = Contender::OursAlone.connect(&urls).await?;
    for tasks in [4, 64, 1024] {
        let figure = format!("commands a cycle, one key, {tasks} tasks of one process, none handed over");
        none_handed_over(figure, vec![(alone.clone(), tasks)], Some(10.0)).await?;
    }
    // Each with connections of its own, as if it were a process: there is nobody to hand over to.
    for managers in [4, 32] {
        let mut crowd = Vec::new();
        for _ in 0..managers {
            crowd.push((Contender::Ours.connect(&urls).await?, 1));
        }
        none_handed_over(format!("commands a cycle, one key, {managers} managers of one task each"), crowd, None)
            .await?;
    }
    Ok(rows)
}

/// Commands of a cycle, round by round.
#[derive(Default)]
struct Counted {
    sent: Vec<f64>,
    executed: Vec<f64>,
    busiest: Vec<f64>,
    cycles: u64,
    failures: u64,
}

impl Counted {
    async fn add(&mut self, meter: &Meter, crowd: &[(Locks, usize)], length: Duration) -> Result<(), Failure> {
        let (done, commands) = counted(meter, crowd, length).await?;
        let each = |count: u64| count as f64 / done.cycles.max(1) as f64;
        self.sent.push(each(commands.sent));
        self.executed.push(each(commands.executed));
        self.busiest.push(each(commands.busiest));
        self.cycles += done.cycles;
        self.failures += done.failures;
        Ok(())
    }
}

impl Row {
    fn notes_of(self, counted: &Counted, whose: &str) -> Self {
        let median = |rounds: &[f64]| super::Spread::of(rounds).map_or(f64::NAN, |spread| spread.median);
        let (busiest, executed) = (median(&counted.busiest), median(&counted.executed));
        let cycles = counted.cycles;
        self.note(format!(
            "{whose}: on the busiest master {busiest:.2}; with the calls inside of scripts {executed:.1}; {cycles} cycles"
        ))
        .failures(whose, counted.failures)
    }
}

/// Runs a crowd on one key, and counts what all masters are sent meanwhile.
pub(super) async fn counted(
    meter: &Meter,
    crowd: &[(Locks, usize)],
    length: Duration,
) -> Result<(Done, Commands), Failure> {
    let sends_set = crowd.iter().any(|(locks, _)| matches!(locks, Locks::Rslock(_)));
    let key = fresh("handover");
    let load =
        |tasks| Load { tasks, length, keys: Keys::One(key.clone()), release: Release::Awaited, inside: Duration::ZERO };
    let loads: Vec<Load> = crowd.iter().map(|(_, tasks)| load(*tasks)).collect();
    let before = meter.read().await?;
    let running = crowd.iter().zip(&loads).map(|((locks, _), load)| load.run(locks));
    let all = futures_util::future::try_join_all(running).await?;
    let commands = meter.since(&before, sends_set).await?;
    let mut done = Done { seconds: length.as_secs_f64(), ..Done::default() };
    all.iter().for_each(|one| done.add(one));
    Ok((done, commands))
}
