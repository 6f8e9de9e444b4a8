//! Many tasks, each with a lock of its own: how many cycles a second?

use std::time::Duration;

use tokio::time::sleep;

use super::contender::{Contender, Locks};
use super::load::{Done, Keys, Load, Release};
use super::row::{Row, Unit};
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "distinct";
const TASKS: [usize; 2] = [64, 256];
/// Between two contenders, so that the one's last releases are not the other's burden.
const SETTLE: Duration = Duration::from_millis(30);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (masters, least, aim) in [(MASTERS, 2.5, 4.0), (1, 1.15, 1.6)] {
        let cluster = RedisCluster::start(masters).await;
        let urls = crew::urls(&cluster);
        let ours = Contender::Ours.connect(&urls).await?;
        let peer = Contender::Rslock.connect(&urls).await?;
        for tasks in TASKS {
            let measured = rounds(plan, &ours, &peer, tasks).await?;
            rows.extend(measured.rows(tasks, masters, least, aim));
        }
        if masters == MASTERS {
            rows.push(beside_a_queue(plan, &urls, &ours, &peer).await?);
        }
    }
    Ok(rows)
}

/// The same while a lock that none of them wants is waited for by another client.
async fn beside_a_queue(plan: &Plan, urls: &[String], ours: &Locks, peer: &Locks) -> Result<Row, Failure> {
    let (holder, waiter, key) =
        (Contender::Ours.connect(urls).await?, Contender::Ours.connect(urls).await?, fresh("hot"));
    let held = holder.lock(&key).await?;
    let waiting = tokio::spawn(async move { waiter.lock(&key).await?.release().await });
    let [tasks, _] = TASKS;
    let Rounds { ours: [awaited, _], peer: [theirs, _], failures } = rounds(plan, ours, peer, tasks).await?;
    held.release().await?;
    waiting.await??;
    let figure =
        format!("cycles at {tasks} tasks, {MASTERS} masters, release awaited, while another lock is waited for");
    let row = Row::new(PART, figure, Unit::PerSecond, &awaited).against("rslock", &awaited, &theirs);
    Ok(row.failures("ours", failures[0]).failures("rslock", failures[1]))
}

/// Cycles a second, round by round, and failures: awaited, in the background.
#[derive(Default)]
struct Rounds {
    ours: [Vec<f64>; 2],
    peer: [Vec<f64>; 2],
    failures: [u64; 2],
}

async fn rounds(plan: &Plan, ours: &Locks, peer: &Locks, tasks: usize) -> Result<Rounds, Failure> {
    let (count, length) = plan.pick((8, Duration::from_millis(250)), (3, Duration::from_millis(100)));
    let mut rounds = Rounds::default();
    // The first round warms up.
    for round in 0..=count {
        for (way, release) in [Release::Awaited, Release::Background].into_iter().enumerate() {
            let run = async |locks: &Locks| -> Result<Done, Failure> {
                let keys = Keys::Distinct(fresh("distinct"));
                let length = if round == 0 { length / 4 } else { length };
                let done = Load { tasks, length, keys, release, inside: Duration::ZERO }.run(locks).await?;
                sleep(SETTLE).await;
                Ok(done)
            };
            let (us, them) = (run(ours).await?, run(peer).await?);
            if round > 0 {
                rounds.ours[way].push(us.per_second());
                rounds.peer[way].push(them.per_second());
            }
            rounds.failures[0] += us.failures;
            rounds.failures[1] += them.failures;
        }
    }
    Ok(rounds)
}

impl Rounds {
    fn rows(&self, tasks: usize, masters: usize, least: f64, aim: f64) -> [Row; 3] {
        let [awaited, background] = &self.ours;
        let [peer, peer_background] = &self.peer;
        let on = if masters == 1 { "one master".to_owned() } else { format!("{masters} masters") };
        let row = |way: &str, ours: &[f64]| {
            Row::new(PART, format!("cycles at {tasks} tasks, {on}, release {way}"), Unit::PerSecond, ours)
        };
        [
            row("awaited", awaited)
                .against("rslock", awaited, peer)
                .at_least_aiming(least, aim)
                .failures("ours", self.failures[0])
                .failures("rslock", self.failures[1]),
            row("in the background", background)
                .against("rslock, awaited", background, peer)
                .at_least_aiming(least, aim),
            row("in the background", background)
                .against("rslock, by a task", background, peer_background)
                .note("rslock does not release in the background: here a task awaits it"),
        ]
    }
}
