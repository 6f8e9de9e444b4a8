//! Many callers of one lock on five real Redis servers: all of them healthy, two killed, or one stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager};
use lock_history::Referee;
use lock_support::{RedisCluster, alone, eventually};

const MANAGERS: usize = 3;
const TASKS: usize = 32;
const CYCLES: usize = 3_000;

/// The callers of one lock, and the referee that records its holders.
#[derive(Clone)]
struct Contest {
    referee: Arc<Referee>,
    cycles: Arc<AtomicUsize>,
    /// The leases that were lost before their holder entered; only faults cause that.
    lost: Arc<AtomicUsize>,
    target: usize,
}

impl Contest {
    fn new(target: usize) -> Self {
        Self { referee: Arc::default(), cycles: Arc::default(), lost: Arc::default(), target }
    }

    fn completed(&self) -> usize {
        self.cycles.load(Ordering::Relaxed)
    }

    /// One of the tasks that acquire and release the lock until `target` cycles are complete.
    async fn run_task(self, locks: LockManager) {
        while self.completed() < self.target {
            let guard = match locks.lock("r").wait(Duration::from_secs(60)).acquire().await {
                Ok(guard) => guard,
                // At the moment of a kill, requests in flight to two nodes are lost.
                Err(LockError::NoQuorum { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            if self.referee.enter(&guard) {
                tokio::task::yield_now().await;
                self.referee.leave(&guard);
                self.cycles.fetch_add(1, Ordering::Relaxed);
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            match guard.release().await {
                Ok(_) | Err(LockError::NoQuorum { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn run(&self, managers: &[LockManager]) {
        let tasks = managers.iter().flat_map(|locks| {
            (0..TASKS).map(|_| tokio::spawn(self.clone().run_task(locks.clone()))).collect::<Vec<_>>()
        });
        for task in join_all(tasks.collect::<Vec<_>>()).await {
            task.unwrap();
        }
    }
}

async fn managers(cluster: &RedisCluster) -> Vec<LockManager> {
    let builders = (0..MANAGERS).map(|_| cluster.builder().ttl(Duration::from_secs(5)).connect());
    join_all(builders).await.into_iter().map(Result::unwrap).collect()
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_never_overlap_and_tokens_increase() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let contest = Contest::new(CYCLES);
    contest.run(&managers).await;
    contest.referee.assert_no_violations();
    assert!(contest.completed() >= CYCLES);
    assert_eq!(contest.lost.load(Ordering::Relaxed), 0, "no lease is lost without a fault");
    for locks in managers {
        let report = locks.shutdown(Duration::ZERO).await;
        assert_eq!((report.released, report.revoked), (0, 0));
    }
    assert_eq!(cluster.keys("lock:[^{]*").await, Vec::<String>::new(), "shutdown waits for the releases");
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_two_of_five_servers_breaks_no_promise() {
    let _alone = alone().await;
    let mut cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let contest = Contest::new(CYCLES);
    let running = contest.run(&managers);
    let kills = async {
        eventually("a third of the cycles is complete", || contest.completed() > CYCLES / 3).await;
        cluster.servers[1].kill();
        eventually("half of the cycles are complete", || contest.completed() > CYCLES / 2).await;
        cluster.servers[4].kill();
    };
    tokio::join!(running, kills);
    contest.referee.assert_no_violations();
    cluster.servers.remove(4);
    cluster.servers.remove(1);
    cluster.no_lock_is_left().await;
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_one_of_five_servers_breaks_no_promise() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let contest = Contest::new(CYCLES);
    let running = contest.run(&managers);
    let stop = async {
        eventually("a third of the cycles is complete", || contest.completed() > CYCLES / 3).await;
        cluster.servers[2].stop();
    };
    tokio::join!(running, stop);
    cluster.servers[2].cont();
    contest.referee.assert_no_violations();
    // The resumed server executes what was sent to it while it was stopped; there the ttl is the bound.
    cluster.no_lock_is_left().await;
}
