//! Many holders of one lock on five real Redis servers, all of them well, and some of them dead or hung.

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

/// The holders of one lock, and the referee who watches them.
#[derive(Clone)]
struct Game {
    referee: Arc<Referee>,
    cycles: Arc<AtomicUsize>,
    /// The locks that were lost while they were held; only faults do that.
    lost: Arc<AtomicUsize>,
    length: usize,
}

impl Game {
    fn new(length: usize) -> Self {
        Self { referee: Arc::default(), cycles: Arc::default(), lost: Arc::default(), length }
    }

    fn played(&self) -> usize {
        self.cycles.load(Ordering::Relaxed)
    }

    /// One of the tasks that take and release the lock until enough was played.
    async fn play(self, locks: LockManager) {
        while self.played() < self.length {
            let guard = match locks.lock("r").wait(Duration::from_secs(60)).acquire().await {
                Ok(guard) => guard,
                // The moment of a kill: requests under way on two nodes are gone.
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

    async fn play_all(&self, managers: &[LockManager]) {
        let tasks = managers
            .iter()
            .flat_map(|locks| (0..TASKS).map(|_| tokio::spawn(self.clone().play(locks.clone()))).collect::<Vec<_>>());
        for task in join_all(tasks.collect::<Vec<_>>()).await {
            task.unwrap();
        }
    }
}

async fn managers(cluster: &RedisCluster) -> Vec<LockManager> {
    let builders = (0..MANAGERS).map(|_| cluster.builder().ttl(Duration::from_secs(5)).connect());
    join_all(builders).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_holders_and_tokens_increase_in_grant_order() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let game = Game::new(CYCLES);
    game.play_all(&managers).await;
    game.referee.assert_fair();
    assert!(game.played() >= CYCLES);
    assert_eq!(game.lost.load(Ordering::Relaxed), 0, "nothing was wrong with the nodes");
    for locks in managers {
        let report = locks.shutdown(Duration::ZERO).await;
        assert_eq!((report.released, report.revoked), (0, 0));
    }
    assert_eq!(cluster.keys("lock:[^{]*").await, Vec::<String>::new(), "shutdown waits for the releases");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_masters_killed_in_the_middle_are_not_noticed() {
    let _alone = alone().await;
    let mut cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let game = Game::new(CYCLES);
    let playing = game.play_all(&managers);
    let kills = async {
        eventually("a third was played", || game.played() > CYCLES / 3).await;
        cluster.servers[1].kill();
        eventually("half was played", || game.played() > CYCLES / 2).await;
        cluster.servers[4].kill();
    };
    tokio::join!(playing, kills);
    game.referee.assert_fair();
    cluster.servers.remove(4);
    cluster.servers.remove(1);
    cluster.no_lock_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_stopped_in_the_middle_is_not_noticed() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let managers = managers(&cluster).await;
    let game = Game::new(CYCLES);
    let playing = game.play_all(&managers);
    let stop = async {
        eventually("a third was played", || game.played() > CYCLES / 3).await;
        cluster.servers[2].stop();
    };
    tokio::join!(playing, stop);
    cluster.servers[2].cont();
    game.referee.assert_fair();
    // What had been sent to the stopped one was executed when it went on; there the time to live is the bound.
    cluster.no_lock_is_left().await;
}
