use std::time::Duration;

use lock_core::LockError;
use lock_core::delegation::AdoptError;
use lock_core::inspection::LockVerdict;
use lock_support::{ZooKeeperServer, eventually, eventually_async, try_succession};
use tokio::time::Instant;

use crate::set::{MAX_TTL, builder, connect};

#[tokio::test]
async fn a_lock_is_taken_and_released_and_tokens_increase() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    let mut last = 0;
    for locks in [&one, &other, &one, &one] {
        let guard = locks.lock("stock:42").acquire().await.unwrap();
        assert!(guard.token().get() > last);
        last = guard.token().get();
        for manager in [&one, &other] {
            let refused = manager.lock("stock:42").try_acquire().await;
            assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
        }
        assert!(guard.release().await.unwrap());
    }
}

// promise: zookeeper
#[tokio::test]
async fn a_lock_that_is_renewed_outlives_its_ttl_and_one_that_is_not_ends_with_it() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    let ttl = Duration::from_millis(400);
    let renewed = one.lock("renewed").ttl(ttl).acquire().await.unwrap();
    let began = Instant::now();
    let forgotten = one.lock("forgotten").ttl(ttl).renew(false).acquire().await.unwrap();
    // Waits in line, so it takes the lock when it ends.
    let next = other.lock("forgotten").acquire().await.unwrap();
    assert!(!forgotten.is_valid() && began.elapsed() >= ttl, "{:?}", began.elapsed());
    assert!(!forgotten.release().await.unwrap());
    assert!(next.is_valid());
    assert!(other.lock("renewed").try_acquire().await.is_err());
    assert!(renewed.release().await.unwrap());
}

// promise: zookeeper
#[tokio::test]
async fn readers_of_one_process_share_a_lock_and_those_of_two_exclude_each_other() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    let first = one.read("catalog").acquire().await.unwrap();
    let second = one.read("catalog").acquire().await.unwrap();
    assert!(other.read("catalog").try_acquire().await.is_err());
    assert!(one.lock("catalog").try_acquire().await.is_err());
    // Also those of a set.
    for wait in [Duration::ZERO, Duration::from_secs(10)] {
        let set = one.lock_all(["stock"]).read(["catalog"]).wait(wait).acquire().await.unwrap();
        assert_eq!(set.get("catalog").unwrap().token(), first.token());
        set.release().await.unwrap();
    }
    drop((first, second));
    other.read("catalog").acquire().await.unwrap().release().await.unwrap();
    let writer = one.lock("catalog").acquire().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    let beside = one.read("catalog").acquire().await.unwrap();
    assert!(reader.is_valid() && beside.is_valid());
}

// promise: zookeeper
#[tokio::test]
async fn sets_are_taken_as_a_whole_and_permits_are_at_most_so_many() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    let set = one.lock_all(["user:7", "stock:42"]).acquire().await.unwrap();
    assert!(other.lock_all(["stock:42", "user:8"]).try_acquire().await.is_err());
    other.lock("user:8").try_acquire().await.expect("nothing of a set that failed is left").release().await.unwrap();
    drop(set);
    other.lock_all(["stock:42", "user:7"]).acquire().await.unwrap().release().await.unwrap();

    let (first, second) =
        (one.permits("export", 2).acquire().await.unwrap(), other.permits("export", 2).acquire().await);
    let second = second.unwrap();
    assert!(one.permits("export", 2).try_acquire().await.is_err());
    let waiting = tokio::spawn(one.permits("export", 2).acquire());
    drop(second);
    let third = waiting.await.unwrap().unwrap();
    assert_ne!(third.slot(), first.slot());
}

// promise: zookeeper
#[tokio::test]
async fn a_lock_is_looked_at_and_taken_from_its_holder() {
    let address = ZooKeeperServer::shared().await;
    let (ours, theirs, operator) = (connect(&address).await, connect(&address).await, connect(&address).await);
    let stuck = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    eventually_async("another process waits", async || {
        operator.inspect("r").await.unwrap().nodes.iter().all(|node| node.waiters == 1)
    })
    .await;
    let report = operator.inspect("r").await.unwrap();
    assert_eq!(report.verdict(), LockVerdict::Held);

    let forced = operator.force_release("r").await.unwrap();
    assert_eq!((forced.evicted, forced.freed_on.len()), (vec![report.holder.unwrap()], 1));
    let next = waiting.await.unwrap().unwrap();
    assert!(stuck.token() < forced.token && forced.token < next.token());
    eventually("the evicted holder knows", || !stuck.is_valid()).await;
    assert!(!stuck.release().await.unwrap(), "it does not release the lock of its successor");
    assert!(next.is_valid());
    let report = operator.inspect("r").await.unwrap();
    assert!(report.nodes.iter().all(|node| node.evicted.len() == 1), "{report:?}");
    next.release().await.unwrap();

    // A free lock: only its fence is raised.
    let forced = operator.force_release("r").await.unwrap();
    assert!(forced.evicted.is_empty());
    assert!(ours.lock("r").acquire().await.unwrap().token() > forced.token);
}

#[tokio::test]
async fn nothing_is_left_in_the_way_of_a_manager_that_was_shut_down() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    drop(one.lock("r").acquire().await.unwrap());
    one.shutdown(Duration::from_secs(5)).await;
    drop(one);
    let began = Instant::now();
    other.lock("r").acquire().await.unwrap().release().await.unwrap();
    assert!(began.elapsed() < MAX_TTL, "{:?}", began.elapsed());
}

#[tokio::test]
async fn names_of_any_kind_are_locks_of_their_own() {
    let address = ZooKeeperServer::shared().await;
    let locks = builder(&address).prefix("a/b.c:").connect_lazy().unwrap();
    let names = ["a/b", "a.b", ".", "..", "ü %2F", "%2F", "a%2Fb"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(locks.lock(name).acquire().await.unwrap());
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

// promise: zookeeper
#[tokio::test]
async fn a_delegation_is_not_adopted_because_the_other_session_may_end_at_any_time() {
    let address = ZooKeeperServer::shared().await;
    let (ours, theirs) = (connect(&address).await, connect(&address).await);
    let guard = ours.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let refused = theirs.adopt(delegation.as_str(), "r").await;
    assert!(matches!(refused, Err(AdoptError::Refused { .. })), "{:?}", refused.err());
    assert!(guard.is_valid());
}

// promise: forced-release
#[tokio::test]
async fn nobody_gets_an_evicted_lock_from_its_former_holder_beside_the_successor() {
    let address = ZooKeeperServer::shared().await;
    try_succession([connect(&address).await, connect(&address).await]).await;
}
