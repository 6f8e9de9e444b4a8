//! Bugs that shipped in other distributed locks: one test for each shows that this library does not have it. Other files test
//! each subject in depth.

use std::time::Duration;

use lock_core::node::Keyspace;
use lock_core::{ConfigError, LockError, LockManager, MemoryNode, quorum};
use lock_support::{MemoryCluster, Recorder, RedisCluster, all_nodes_vote, eventually, eventually_async};
use tokio::time::{Instant, sleep, timeout};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Five nodes, and a manager that is connected to them.
async fn connected() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().node_timeout(ms(50)).connect().await.unwrap();
    (cluster, locks)
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn bug_01_an_expired_lock_returned_as_acquired() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().node_timeout(ms(500)).connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(ms(150)));
    let late = locks.lock("r").ttl(ms(150)).try_acquire().await.unwrap_err();
    assert!(matches!(late, LockError::Expired { .. }), "{late}");

    // Validity counts from before the first request of the attempt.
    cluster.nodes.iter().for_each(|node| node.set_delay(ms(40)));
    let started = Instant::now();
    let guard = locks.lock("r").ttl(ms(1000)).acquire().await.unwrap();
    let validity = guard.remaining();
    assert!(validity <= ms(1000) - quorum::drift(ms(1000)) - ms(40), "{validity:?} after {:?}", started.elapsed());
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn bug_02_a_renewal_that_recreates_a_missing_key_or_a_failed_one_that_unlocks() {
    let (cluster, locks) = connected().await;
    let lost = locks.lock("gone").ttl(ms(300)).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(MemoryNode::forget);
    lost.lost().await;
    assert!(lost.check().is_err());
    sleep(ms(1000)).await;
    assert!(cluster.nodes[..3].iter().all(|node| node.lock_keys().is_empty()), "no key was recreated");

    let (cluster, locks) = connected().await;
    let kept = locks.lock("kept").ttl(ms(3000)).acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    sleep(ms(1200)).await;
    assert!(kept.is_valid(), "a failed renewal does not end the lease");
    cluster.nodes.iter().for_each(|node| node.set_down(false));
    sleep(ms(6000)).await;
    assert!(kept.is_valid(), "the lease is renewed when the nodes are back");
}

// promise: no-resurrection
#[tokio::test(start_paused = true)]
async fn bug_03_a_renewal_by_a_majority_of_the_responders() {
    let (cluster, locks) = connected().await;
    let guard = locks.lock("r").ttl(ms(300)).acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.set_down(true));
    sleep(ms(300)).await;
    assert_eq!(cluster.holding(), 2, "the two nodes that reply kept the key");
    assert!(!guard.is_valid(), "two of five are no majority");
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn bug_04_a_watchdog_that_outlives_unlock_dies_silently_or_never_ends() {
    let recorders: Vec<_> = (0..3).map(|_| Recorder::new(MemoryNode::new())).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).connect().await.unwrap();
    let guard = locks.lock("r").ttl(ms(300)).max_hold(ms(1000)).acquire().await.unwrap();
    sleep(ms(250)).await;
    assert_eq!(recorders[0].renewals(), 2);
    guard.release().await.unwrap();
    sleep(ms(5000)).await;
    assert_eq!(recorders[0].renewals(), 2, "renewal ended with the lock");

    let guard = locks.lock("r").ttl(ms(300)).max_hold(ms(1000)).acquire().await.unwrap();
    guard.lost().await;
    let renewals = recorders[0].renewals();
    sleep(ms(5000)).await;
    assert_eq!(recorders[0].renewals(), renewals, "renewal ended with max_hold, and the loss was reported");
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn bug_05_a_failed_attempt_is_released_only_where_the_reply_was_ok_or_nowhere() {
    let (cluster, locks) = connected().await;
    // Two nodes grant, and two more grant but their replies are lost: the client cannot know of the majority.
    cluster.nodes[0].set_down(true);
    cluster.nodes[1..3].iter().for_each(|node| node.drop_replies(true));
    let failed = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(failed, LockError::NoQuorum { .. }), "{failed}");
    eventually("no key is left", || cluster.lock_keys().is_empty()).await;

    // Cancelled when all nodes had granted and no reply had arrived.
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    assert!(timeout(ms(10), locks.lock("r").acquire()).await.is_err());
    eventually("no key is left", || cluster.lock_keys().is_empty()).await;
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn bug_06_one_dead_or_hung_node_delays_every_lock_and_an_even_split_hangs() {
    let (cluster, locks) = connected().await;
    cluster.nodes[0].set_down(true);
    cluster.nodes[1].set_delay(ms(3_600_000));
    let started = Instant::now();
    for _ in 0..100 {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::ZERO);

    let even = LockManager::builder().nodes((0..4).map(|_| MemoryNode::new())).connect_lazy();
    assert_eq!(even.unwrap_err(), ConfigError::EvenNodes { nodes: 4 });
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn bug_07_a_retry_with_the_same_owner_id() {
    let recorder = Recorder::new(MemoryNode::new());
    let connect = async || LockManager::builder().nodes([recorder.clone()]).connect().await.unwrap();
    let (holder, locks) = (connect().await, connect().await);
    let held = holder.lock("r").acquire().await.unwrap();
    locks.lock("r").wait(ms(10_000)).acquire().await.unwrap_err();
    held.release().await.unwrap();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    let mut owners = recorder.owners();
    let attempts = owners.len();
    assert!(attempts > 5, "{attempts}");
    owners.sort();
    owners.dedup();
    assert_eq!(owners.len(), attempts, "every attempt has its own owner id");
}

// promise: distinct-errors
#[tokio::test(start_paused = true)]
async fn bug_08_held_and_down_are_the_same_error_and_a_release_error_masks_the_result() {
    let (cluster, locks) = connected().await;
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::Contended { .. })));
    let result = locks
        .lock("other")
        .run(async |_| {
            cluster.nodes.iter().for_each(|node| node.set_down(true));
            "the work"
        })
        .await;
    assert_eq!(result.unwrap(), "the work");
    assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })));
    assert!(guard.release().await.is_err(), "an explicit release reports its error");
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn bug_09_nodes_that_reply_after_the_quorum_are_never_renewed_or_released() {
    let (cluster, locks) = connected().await;
    let late = &cluster.nodes[4];
    late.set_delay(ms(20));
    let guard = locks.lock("r").ttl(ms(300)).acquire().await.unwrap();
    assert!(late.lock_keys().is_empty(), "it has not replied");
    sleep(ms(1000)).await;
    assert_eq!(late.lock_keys().len(), 1, "it was renewed with the others");
    drop(guard);
    eventually("it is released with the others", || cluster.lock_keys().is_empty()).await;
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn bug_10_short_ttls_underflow_or_lose_their_fraction() {
    for ttl in 0..100 {
        assert!(quorum::validity(ms(ttl), ms(1000)).is_none());
    }
    let (_cluster, locks) = connected().await;
    let guard = locks.lock("r").ttl(Duration::from_micros(150_500)).renew(false).acquire().await.unwrap();
    assert_eq!(guard.remaining(), Duration::from_micros(150_500) * 99 / 100 - ms(2));
    let LockError::Contended { free_in, .. } = locks.lock("r").try_acquire().await.unwrap_err() else { panic!() };
    assert_eq!(free_in, Some(Duration::from_micros(150_500)), "not 0 s, not 150 s");
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn bug_11_a_quorum_of_three_and_a_half() {
    assert_eq!(quorum::majority(5), 3);
    let (cluster, locks) = connected().await;
    cluster.nodes[..2].iter().for_each(|node| node.set_down(true));
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
}

// promise: fencing
#[tokio::test]
async fn bug_12_a_fence_key_for_every_lock_forever_and_a_lease_with_the_token_of_another() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    let (token, lease) = (first.token(), first.lease());
    let inner = lease.scope(locks.lock("r").acquire()).await.unwrap();
    assert_eq!(inner.token(), token, "re-entry shares the token");
    first.release().await.unwrap();
    let next = locks.lock("r").acquire().await.unwrap();
    assert!(next.token() > token);
    assert_eq!(lease.token(), token, "a lease reports its own token, not the latest");
    next.release().await.unwrap();

    futures_util::future::join_all((0..2_000).map(async |number| {
        let guard = locks.lock(format!("r-{number}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }))
    .await;
    for server in &cluster.servers {
        let record = vec!["lock:{node}".to_owned()];
        eventually_async("only the record is left", async || server.keys("*").await == record).await;
        let fields: Vec<String> = server.query("HKEYS lock:{node}").await;
        let is_fence = |field: &&String| field.parse::<u16>().is_ok_and(|fence| fence <= Keyspace::TEST_FENCE);
        let fences = fields.iter().filter(is_fence).count();
        assert_eq!(fields.len() - fences, 12, "the record has twelve fields besides the fences");
        assert!(fences > 1_500, "2,000 locks should share few fences, but use only {fences}");
    }
}

// promise: no-leaks
#[tokio::test]
async fn bug_13_a_connection_per_operation_or_a_task_per_call() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let clients = async || cluster.servers[0].query::<String>("CLIENT LIST").await.lines().count();
    let before = clients().await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..300 {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(clients().await, before, "one connection for each node, always the same");
    let metrics = tokio::runtime::Handle::current().metrics();
    eventually("no task is left behind", || metrics.num_alive_tasks() <= tasks).await;
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn bug_14_on_shutdown_the_lock_is_released_while_the_handler_runs() {
    let (cluster, locks) = connected().await;
    let worker = locks.clone();
    let work = tokio::spawn(async move {
        let work = worker.lock("r").run(async |lease| {
            sleep(ms(3000)).await;
            lease.is_valid()
        });
        work.await.unwrap()
    });
    eventually("the worker holds the lock", || cluster.holding() >= 3).await;
    let report = locks.shutdown(ms(10_000)).await;
    assert_eq!((report.released, report.revoked), (1, 0));
    assert!(work.await.unwrap(), "the lock was held to the end");
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn bug_15_the_token_is_the_largest_of_the_nodes_fences() {
    let (cluster, locks) = connected().await;
    // Five acquisitions on majorities that overlap in few nodes: the largest fence of each would be 1, 2, 3, 4, 3.
    let mut last = 0;
    for away in [[3, 4], [1, 2], [0, 1], [2, 3], [0, 4]] {
        away.iter().for_each(|node: &usize| cluster.nodes[*node].set_down(true));
        let guard = locks.lock("r").acquire().await.unwrap();
        let token = guard.token().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
        away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
        all_nodes_vote(&locks).await;
    }
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn bug_16_a_semaphore_on_majorities_admits_more_than_its_limit() {
    // There is no semaphore. Two locks serve as two permits, and a third caller gets neither.
    let (_cluster, locks) = connected().await;
    let permit = async || match locks.lock("permit:1").try_acquire().await {
        Ok(guard) => Ok(guard),
        Err(_) => locks.lock("permit:2").try_acquire().await,
    };
    let _held = (permit().await.unwrap(), permit().await.unwrap());
    assert!(matches!(permit().await, Err(LockError::Contended { .. })));
}
