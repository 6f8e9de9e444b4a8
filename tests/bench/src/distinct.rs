//! Many tasks, each with resources of its own: how many cycles a second?

use std::time::Duration;

use tokio::time::sleep;

use super::contender::{Contender, Locks};
use super::load::{Load, LoadResult, Release, Resources};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "distinct";
const TASKS: [usize; 2] = [64, 256];
/// On one master, where client and server take turns while the tasks are few.
const FEW_TASKS: [usize; 3] = [8, 16, 32];
/// A pause between two contenders, so that the last releases of one do not burden the other.
const SETTLE: Duration = Duration::from_millis(30);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for (masters, at_least, aim) in [(MASTERS, 2.5, 4.0), (1, 1.15, 1.6)] {
        let cluster = RedisCluster::start(masters).await;
        let urls = child::urls(&cluster);
        let ours = Contender::Ours.connect(&urls).await?;
        let peer = Contender::Rslock.connect(&urls).await?;
        if masters == 1 {
            for tasks in FEW_TASKS {
                rows.push(rounds(plan, &ours, &peer, tasks).await?.awaited(tasks, masters).at_least(1.0));
            }
        }
        for tasks in TASKS {
            let measured = rounds(plan, &ours, &peer, tasks).await?;
            rows.extend(measured.rows(tasks, masters, at_least, aim));
        }
        if masters == MASTERS {
            rows.push(while_another_lock_has_a_queue(plan, &urls, &ours, &peer).await?);
        }
    }
    Ok(rows)
}

/// The same while another client waits for a lock that none of the tasks wants.
async fn while_another_lock_has_a_queue(
    plan: &Plan,
    urls: &[String],
    ours: &Locks,
    peer: &Locks,
) -> Result<Row, BoxError> {
    let (holder, waiter, resource) =
        (Contender::Ours.connect(urls).await?, Contender::Ours.connect(urls).await?, fresh("hot"));
    let held = holder.lock(&resource).await?;
    let waiting = tokio::spawn(async move { waiter.lock(&resource).await?.release().await });
    let [tasks, _] = TASKS;
    let Rounds { ours: [awaited, _], peer: [peer_awaited, _], failures } = rounds(plan, ours, peer, tasks).await?;
    held.release().await?;
    waiting.await??;
    let figure =
        format!("cycles at {tasks} tasks, {MASTERS} masters, release awaited, while another lock is waited for");
    let row = Row::new(PART, figure, Unit::PerSecond, &awaited).against("rslock", &awaited, &peer_awaited);
    Ok(row.failures("ours", failures[0]).failures("rslock", failures[1]))
}

/// Cycles a second, round by round, with releases awaited and in the background; and failures.
#[derive(Default)]
struct Rounds {
    ours: [Vec<f64>; 2],
    peer: [Vec<f64>; 2],
    failures: [u64; 2],
}

async fn rounds(plan: &Plan, ours: &Locks, peer: &Locks, tasks: usize) -> Result<Rounds, BoxError> {
    let (count, length) = plan.pick((8, Duration::from_millis(250)), (3, Duration::from_millis(100)));
    let mut rounds = Rounds::default();
    // The first round warms up.
    for round in 0..=count {
        for (way, release) in [Release::Awaited, Release::Background].into_iter().enumerate() {
            let run = async |locks: &Locks| -> Result<LoadResult, BoxError> {
                let resources = Resources::Distinct(fresh("distinct"));
                let length = if round == 0 { length / 4 } else { length };
                let done = Load { tasks, length, resources, release, inside: Duration::ZERO }.run(locks).await?;
                sleep(SETTLE).await;
                Ok(done)
            };
            let (by_ours, by_peer) = (run(ours).await?, run(peer).await?);
            if round > 0 {
                rounds.ours[way].push(by_ours.per_second());
                rounds.peer[way].push(by_peer.per_second());
            }
            rounds.failures[0] += by_ours.failures;
            rounds.failures[1] += by_peer.failures;
        }
    }
    Ok(rounds)
}

impl Rounds {
    fn rows(&self, tasks: usize, masters: usize, at_least: f64, aim: f64) -> [Row; 3] {
        let (background, [peer, peer_background]) = (&self.ours[1], &self.peer);
        let row = || row(tasks, masters, "in the background", background);
        [
            self.awaited(tasks, masters).at_least_aiming(at_least, aim),
            row().against("rslock, awaited", background, peer).at_least_aiming(at_least, aim),
            row()
                .against("rslock, by a task", background, peer_background)
                .note("rslock does not release in the background: here a task awaits it"),
        ]
    }

    fn awaited(&self, tasks: usize, masters: usize) -> Row {
        row(tasks, masters, "awaited", &self.ours[0])
            .against("rslock", &self.ours[0], &self.peer[0])
            .failures("ours", self.failures[0])
            .failures("rslock", self.failures[1])
    }
}

fn row(tasks: usize, masters: usize, way: &str, ours: &[f64]) -> Row {
    let on = if masters == 1 { "one master".to_owned() } else { format!("{masters} masters") };
    Row::new(PART, format!("cycles at {tasks} tasks, {on}, release {way}"), Unit::PerSecond, ours)
}
