//! Permits on real Redis servers: at most that many holders, whatever becomes of servers and processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager};
use lock_history::Referee;
use lock_support::{RedisCluster, all_nodes_vote, alone, eventually, eventually_async};
use tokio::time::sleep;

const PERMITS: u32 = 2;
const MANAGERS: usize = 3;
const TASKS: usize = 6;

/// The callers of one resource, and what they found.
#[derive(Clone, Default)]
struct Contest(Arc<State>);

#[derive(Default)]
struct State {
    /// One for each slot.
    referees: [Referee; PERMITS as usize],
    grants: [AtomicUsize; MANAGERS],
    over: AtomicBool,
}

impl Contest {
    fn granted(&self) -> usize {
        self.0.grants.iter().map(|grants| grants.load(Ordering::Relaxed)).sum()
    }

    /// A task that holds permits of the resource, one after another, until the contest is over.
    async fn run_task(self, process: usize, locks: LockManager) {
        while !self.0.over.load(Ordering::Relaxed) {
            let permit = match locks.permits("export", PERMITS).acquire().await {
                Ok(permit) => permit,
                // While servers are killed.
                Err(LockError::NoQuorum { .. } | LockError::Expired { .. } | LockError::Contended { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            // Two slots with a referee each: no more than two hold.
            let referee = &self.0.referees[permit.slot().unwrap() as usize];
            if referee.enter(&permit) {
                sleep(Duration::from_millis(1)).await;
                referee.leave(&permit);
                self.0.grants[process].fetch_add(1, Ordering::Relaxed);
            }
            drop(permit);
        }
    }

    /// Runs all tasks until `faults` is done.
    async fn run(&self, managers: &[LockManager], faults: impl Future<Output = ()>) {
        let tasks: Vec<_> = managers.iter().enumerate().flat_map(|task| vec![task; TASKS]).collect();
        let tasks =
            tasks.into_iter().map(|(process, locks)| tokio::spawn(self.clone().run_task(process, locks.clone())));
        let tasks: Vec<_> = tasks.collect();
        faults.await;
        self.0.over.store(true, Ordering::Relaxed);
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
        self.0.referees.iter().for_each(Referee::assert_no_violations);
    }

    async fn reaches(&self, grants: usize) {
        eventually("more permits are granted", || self.granted() >= grants).await;
    }
}

async fn managers(cluster: &RedisCluster) -> Vec<LockManager> {
    let builders = (0..MANAGERS).map(|_| cluster.builder().wait(Duration::from_secs(30)).connect());
    join_all(builders).await.into_iter().map(Result::unwrap).collect()
}

/// Waits until nothing but the record is left, and fences.
async fn nothing_is_left(cluster: &RedisCluster) {
    cluster.no_lock_is_left().await;
    eventually_async("no queue is left", async || cluster.keys("lock:{export*").await.is_empty()).await;
}

// promise: permits
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_two_hold_and_processes_get_equal_shares() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(3).await;
    let (managers, contest) = (managers(&cluster).await, Contest::default());
    contest.run(&managers, contest.reaches(600)).await;
    let grants: Vec<_> = contest.0.grants.iter().map(|grants| grants.load(Ordering::Relaxed)).collect();
    let (least, most) = (grants.iter().min().unwrap(), grants.iter().max().unwrap());
    assert!(*least * 2 >= *most, "{grants:?}");
    nothing_is_left(&cluster).await;
}

/// Kills, stops and empties servers, never a majority of them, and checks that permits are granted in between.
async fn chaos(cluster: &mut RedisCluster, locks: &LockManager, contest: &Contest, rounds: usize, step: usize) {
    for round in 0..rounds {
        let victim = round % 5;
        cluster.servers[victim].stop();
        contest.reaches(contest.granted() + step).await;
        cluster.servers[victim].cont();
        contest.reaches(contest.granted() + step).await;
        cluster.servers[(victim + 2) % 5].kill();
        contest.reaches(contest.granted() + step).await;
        cluster.servers[(victim + 2) % 5].restart_empty().await;
        all_nodes_vote(locks).await;
        contest.reaches(contest.granted() + step).await;
    }
}

async fn run_chaos(rounds: usize, step: usize) {
    let _alone = alone().await;
    let mut cluster = RedisCluster::start(5).await;
    // A server that lost its data grants again after a quarantine of this time. Only then the next one may fail.
    let builder = || cluster.builder().wait(Duration::from_secs(30)).max_ttl(Duration::from_secs(1));
    let builders = (0..MANAGERS).map(|_| builder().ttl(Duration::from_millis(500)).connect());
    let managers: Vec<_> = join_all(builders).await.into_iter().map(Result::unwrap).collect();
    let contest = Contest::default();
    let observed = contest.clone();
    contest.run(&managers, chaos(&mut cluster, &managers[0], &observed, rounds, step)).await;
    for locks in managers {
        locks.shutdown(Duration::from_secs(5)).await;
    }
    cluster.no_lock_is_left().await;
}

// promise: permits
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_a_minority_let_no_third_holder_in() {
    run_chaos(1, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn faults_of_a_minority_let_no_third_holder_in_for_long() {
    run_chaos(20, 500).await;
}
