//! Processes that the masters cannot call, or that cannot have others called: all take turns all the same, and say what is wrong.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lock_core::node::{Keyspace, NodeFuture, WaiterId, Wakeups};
use lock_core::{LockManager, LockNode, NodeError, RedisNode};
use lock_support::{Events, RedisCluster, alone, eventually};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::waiter::{Waiter, eventually_queued};

/// How many cycles are shared.
const CYCLES: usize = 630;
const PROCESSES: usize = 3;

// promise: turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_cannot_be_called_share_a_lock_and_say_why_once() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let mut masters = Vec::new();
    for server in &cluster.servers {
        // All that a client may need to be called is missing.
        let user = "ACL SETUSER deaf on >secret ~* &* +@all -subscribe -psubscribe";
        assert_eq!(server.query::<String>(user).await, "OK");
        masters.push(format!("redis://deaf:secret@{}", server.address()));
    }
    let mut waiters = join_all((0..PROCESSES).map(|_| Waiter::start("r", &masters))).await;
    for waiter in &mut waiters {
        waiter.ask(CYCLES).await;
    }
    eventually("the processes had enough cycles", || waiters.iter().map(Waiter::granted).sum::<usize>() >= CYCLES)
        .await;
    let shares: Vec<_> = waiters.iter().map(Waiter::granted).collect();
    // Who polls late, on a busy machine, has the next turn instead.
    let least = CYCLES / PROCESSES / 2;
    assert!(shares.iter().all(|cycles| *cycles >= least), "unequal shares: {shares:?}");
    for waiter in waiters {
        let log = waiter.kill().await;
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("no permissions"), "{log}");
    }
}

/// A manager of a user who lacks these rights.
async fn manager_without(cluster: &RedisCluster, rights: &str) -> LockManager {
    let mut masters = Vec::new();
    for server in &cluster.servers {
        let user = format!("ACL SETUSER half on >secret ~* &* +@all {rights}");
        assert_eq!(server.query::<String>(&user).await, "OK");
        masters.push(format!("redis://half:secret@{}", server.address()));
    }
    let builder = LockManager::builder().redis(masters).node_timeout(Duration::from_secs(1));
    builder.wait(Duration::from_secs(60)).connect().await.unwrap()
}

/// How many turns each manager has while all of them want the lock all the time.
async fn turns(managers: &[LockManager], hold: Duration, period: Duration) -> Vec<usize> {
    let (ends, mut tasks) = (Instant::now() + period, JoinSet::new());
    let turns: Vec<_> = managers.iter().map(|_| Arc::new(AtomicUsize::new(0))).collect();
    for (locks, turns) in managers.iter().zip(&turns) {
        let (locks, turns) = (locks.clone(), Arc::clone(turns));
        tasks.spawn(async move {
            while Instant::now() < ends {
                let guard = locks.lock("r").acquire().await.unwrap();
                sleep(hold).await;
                turns.fetch_add(usize::from(Instant::now() < ends), Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
}

// promise: turns
#[tokio::test]
async fn users_without_publish_take_no_turns_from_others_and_log_a_warning() {
    let _alone = alone().await;
    let events = Events::record();
    let cluster = RedisCluster::start(3).await;
    let mut managers = Vec::new();
    for _ in 0..8 {
        managers.push(cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap());
        managers.push(manager_without(&cluster, "-publish").await);
    }
    let turns = turns(&managers, Duration::from_millis(2), Duration::from_secs(8)).await;
    println!("{turns:?}");
    let (healthy, mute): (Vec<_>, Vec<_>) = turns.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    let (healthy, mute) = (healthy.iter().sum::<usize>(), mute.iter().sum::<usize>());
    assert!(turns.iter().all(|turns| *turns >= 2), "somebody has no turns: {turns:?}");
    assert!(healthy * 2 >= mute, "{healthy} turns of those who call the others, {mute} of those who do not");
    let said = events.named("lock.node_calls_nobody");
    assert_eq!(said.len(), 8 * 3, "once for each manager and node: {said:?}");
    assert!(said[0].fields.contains("publish"), "{said:?}");
}

// promise: turns
#[tokio::test]
async fn a_lock_released_by_a_user_without_publish_is_taken_within_a_second() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(3).await;
    let mute = manager_without(&cluster, "resetchannels").await;
    let locks = cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap();
    let held = mute.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").acquire());
    eventually_queued(&cluster, 1).await;
    sleep(Duration::from_secs(2)).await;
    held.release().await.unwrap();
    let released = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_millis(1_300), "{:?}", released.elapsed());
}

// promise: turns
#[tokio::test]
async fn a_user_with_half_of_the_rights_removes_nobody_from_the_queue() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(1).await;
    let mut waiters = Vec::new();
    for _ in 0..2 {
        waiters.push(cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap());
    }
    for rights in ["-publish", "-publish -zrem", "-zrange", "-zadd -zcard", "-zcard -zrank"] {
        let half = manager_without(&cluster, rights).await;
        let held = half.lock("r").acquire().await.unwrap();
        let mut waiting = JoinSet::new();
        for locks in &waiters {
            let acquire = locks.lock("r").acquire();
            waiting.spawn(async move { acquire.await.unwrap().release().await.unwrap() });
        }
        eventually_queued(&cluster, 2).await;
        // One attempt that does not wait, and one that waits and gives up.
        half.lock("r").try_acquire().await.unwrap_err();
        half.lock("r").wait(Duration::from_millis(50)).acquire().await.unwrap_err();
        let queue = cluster.servers[0].keys("*:queue").await.remove(0);
        let queued: Vec<String> = cluster.servers[0].query(&format!("ZRANGE {queue} 0 -1")).await;
        held.release().await.unwrap();
        let left: Vec<String> = cluster.servers[0].query(&format!("ZRANGE {queue} 0 -1")).await;
        let is_taken: bool = cluster.servers[0].query("EXISTS lock:r").await;
        // Those who are called take the lock at once.
        assert!(left == queued || is_taken || !rights.contains("-publish"), "{rights}: {queued:?} became {left:?}");
        let began = Instant::now();
        while let Some(released) = waiting.join_next().await {
            released.unwrap();
        }
        assert!(began.elapsed() < Duration::from_millis(2_500), "{rights}: {:?}", began.elapsed());
    }
}

/// A server whose messages do not arrive, although it counts this process among those who listen.
struct Deaf(RedisNode);

impl LockNode for Deaf {
    lock_core::forward_to_node!(self => self.0;
        name inspect write_record read_fences submit submit_all look evict disconnected disconnect node_timeout);

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let listening = self.0.wakeups(keyspace, waiter);
        Box::pin(async move { Ok(listening.await?.filter(|_| ready(false)).boxed()) })
    }
}

// promise: turns
#[tokio::test]
async fn processes_whose_wakeups_are_lost_take_turns_and_say_so() {
    let _alone = alone().await;
    let events = Events::record();
    let cluster = RedisCluster::start(3).await;
    let mut managers = Vec::new();
    for _ in 0..4 {
        managers.push(cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap());
        let nodes = cluster.servers.iter().map(|server| Deaf(RedisNode::from_url(&server.url()).unwrap()));
        let builder = LockManager::builder().nodes(nodes).node_timeout(Duration::from_secs(1));
        managers.push(builder.wait(Duration::from_secs(60)).connect().await.unwrap());
    }
    let turns = turns(&managers, Duration::from_millis(2), Duration::from_secs(8)).await;
    println!("{turns:?}");
    let (heard, deaf): (Vec<_>, Vec<_>) = turns.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    let (heard, deaf) = (heard.iter().sum::<usize>(), deaf.iter().sum::<usize>());
    assert!(deaf * 2 >= heard && turns.iter().all(|turns| *turns >= 4), "{turns:?}");
    let said = events.named("lock.node_does_not_call");
    assert!(said.len() >= 4 && said.iter().all(|event| event.fields.contains("do not arrive")), "{said:?}");
}
