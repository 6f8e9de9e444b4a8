//! One resource, many waiters: how many commands does a cycle cost, and does the number grow?

use std::time::Duration;

use super::commands::{Commands, Meter};
use super::contender::{Contender, Locks};
use super::load::{Load, LoadResult, Release, Resources};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "handover";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, length) = plan.pick((2, Duration::from_millis(600)), (1, Duration::from_millis(250)));
    let cluster = RedisCluster::start(MASTERS).await;
    let urls = child::urls(&cluster);
    let meter = Meter::connect(&cluster).await?;
    let ours = Contender::Ours.connect(&urls).await?;
    let peer = Contender::Rslock50ms.connect(&urls).await?;
    let mut rows = Vec::new();
    for tasks in [4, 64, 1024] {
        let figure = format!("commands a cycle, one key, {tasks} tasks of one process");
        let crowd = [(ours.clone(), tasks)];
        let mut counted = Counted::default();
        for _ in 0..rounds {
            counted.add(&meter, &crowd, length).await?;
        }
        // A thousand tasks of the peer would only time out.
        let mut row = Row::new(PART, figure, Unit::Number, &counted.sent);
        if tasks <= 64 {
            let mut peer_counted = Counted::default();
            for _ in 0..rounds {
                peer_counted.add(&meter, &[(peer.clone(), tasks)], length).await?;
            }
            row = row
                .against(Contender::Rslock50ms.name(), &counted.sent, &peer_counted.sent)
                .notes_of(&peer_counted, "rslock");
        }
        rows.push(row.own_at_most(2.0).notes_of(&counted, "ours"));
    }
    let mut without_handover = async |figure: String, crowd: Vec<(Locks, usize)>, most: Option<f64>| {
        let mut counted = Counted::default();
        for _ in 0..rounds {
            counted.add(&meter, &crowd, length).await?;
        }
        let row = Row::new(PART, figure, Unit::Number, &counted.sent).notes_of(&counted, "ours");
        rows.push(if let Some(most) = most { row.own_at_most(most) } else { row });
        Ok::<_, BoxError>(())
    };
    let without_renewal = Contender::OursWithoutHandover.connect(&urls).await?;
    for tasks in [4, 64, 1024] {
        let figure = format!("commands a cycle, one key, {tasks} tasks of one process, without handover");
        without_handover(figure, vec![(without_renewal.clone(), tasks)], Some(10.0)).await?;
    }
    // Each with its own connections, like a process, so that there is nobody to hand over to.
    for managers in [4, 32] {
        let mut crowd = Vec::new();
        for _ in 0..managers {
            crowd.push((Contender::Ours.connect(&urls).await?, 1));
        }
        without_handover(format!("commands a cycle, one key, {managers} managers of one task each"), crowd, None)
            .await?;
    }
    Ok(rows)
}

/// Commands a cycle, round by round.
#[derive(Default)]
struct Counted {
    sent: Vec<f64>,
    executed: Vec<f64>,
    busiest: Vec<f64>,
    cycles: u64,
    failures: u64,
}

impl Counted {
    async fn add(&mut self, meter: &Meter, crowd: &[(Locks, usize)], length: Duration) -> Result<(), BoxError> {
        let (done, commands) = counted(meter, crowd, length).await?;
        let per_cycle = |count: u64| count as f64 / done.cycles.max(1) as f64;
        self.sent.push(per_cycle(commands.sent));
        self.executed.push(per_cycle(commands.executed));
        self.busiest.push(per_cycle(commands.busiest));
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
            "{whose}: on the busiest master {busiest:.2}; including the calls inside of scripts {executed:.1}; {cycles} cycles"
        ))
        .failures(whose, counted.failures)
    }
}

/// Runs a crowd on one resource, and counts what all masters are sent meanwhile.
pub(super) async fn counted(
    meter: &Meter,
    crowd: &[(Locks, usize)],
    length: Duration,
) -> Result<(LoadResult, Commands), BoxError> {
    let sends_set = crowd.iter().any(|(locks, _)| matches!(locks, Locks::Rslock(_)));
    let resource = fresh("handover");
    let load = |tasks| Load {
        tasks,
        length,
        resources: Resources::One(resource.clone()),
        release: Release::Awaited,
        inside: Duration::ZERO,
    };
    let loads: Vec<Load> = crowd.iter().map(|(_, tasks)| load(*tasks)).collect();
    let before = meter.read().await?;
    let running = crowd.iter().zip(&loads).map(|((locks, _), load)| load.run(locks));
    let all = futures_util::future::try_join_all(running).await?;
    let commands = meter.since(&before, sends_set).await?;
    let mut done = LoadResult { seconds: length.as_secs_f64(), ..LoadResult::default() };
    all.iter().for_each(|one| done.add(one));
    Ok((done, commands))
}
