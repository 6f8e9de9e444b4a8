use std::num::NonZeroU64;
use std::time::Duration;

use lock_core::NodeError;
use lock_core::node::conformance::{Conformance, Lack};
use lock_core::node::{
    EVICTION_GAP, Evict, Eviction, Holder, LockKeys, Operation, OwnerId, QueuePosition, Reply, ReplySender, Request,
    WaiterId,
};
use lock_support::{ZooKeeperServer, ask, eventually_async};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::set::node;
use crate::side::{EPOCH, Side, TTL, acquire, acquire_since};

// promise: zookeeper
#[tokio::test]
async fn locks_fences_and_evictions_follow_the_rules_of_an_in_memory_node() {
    let address = ZooKeeperServer::shared().await;
    // Its queue is of its own kind, and an owner that releases a lock wants it no more.
    let lacks = [
        Lack::WaitingRoom,
        Lack::Readers,
        Lack::Replace,
        Lack::Remaining,
        Lack::PromptEviction,
        Lack::EpochOfReleases,
        Lack::LastTokens,
        Lack::OrderOfOwners,
    ];
    let conformance = Conformance::default().lacks(lacks).ttl(TTL / 4).sequences(20);
    let report = conformance.check(|| node(&address)).await.unwrap();
    assert!(report.compared > 300, "{report:?}");
}

// promise: zookeeper
#[tokio::test]
async fn a_late_attempt_of_an_evicted_owner_is_refused_until_its_tombstone_is_over() {
    let side = Side::new(node(&ZooKeeperServer::shared().await)).await;
    let [owner, other] = [1, 2].map(OwnerId::from_bits);
    let acquire = acquire(owner, TTL);
    assert_eq!(side.send(0, EPOCH, acquire).await, Ok(Reply::Granted { token: 1 }));
    let evicted = side.evict_for(Duration::from_millis(300), 0, EPOCH, owner, 50).await;
    assert_eq!(evicted, Ok(Eviction::Evicted { deleted: true }));
    assert!(matches!(side.send(0, EPOCH, acquire).await, Ok(Reply::Held { .. })));
    assert_eq!(side.send(0, EPOCH, Operation::Extend { owner, ttl: TTL }).await, Ok(Reply::Gone));
    let release = Operation::Release { owner, position: QueuePosition::None };
    assert_eq!(side.send(0, EPOCH, release).await, Ok(Reply::NotOwner));
    assert_eq!(side.look(None).await.unwrap()[0].evicted, vec![owner]);
    let is_over = async || side.look(None).await.unwrap()[0].evicted.is_empty();
    eventually_async("the tombstone is over, and not shown", is_over).await;
    // The next eviction on the node, of whatever lock, clears away those that are over.
    side.evict(1, EPOCH, other, 51).await.unwrap();
    assert_eq!(side.send(0, EPOCH, acquire).await, Ok(Reply::Granted { token: 51 }));
}

// promise: forced-release
#[tokio::test]
async fn a_lock_is_granted_to_nobody_for_a_moment_after_an_eviction_and_then_to_anybody() {
    let side = Side::new(node(&ZooKeeperServer::shared().await)).await;
    let acquire = |owner| acquire(OwnerId::from_bits(owner), TTL);
    assert_eq!(side.send(0, EPOCH, acquire(1)).await, Ok(Reply::Granted { token: 1 }));
    let began = Instant::now();
    let succeeded = async {
        let replies = async || side.send(0, EPOCH, acquire(2)).await;
        eventually_async("it is granted again", async || matches!(replies().await, Ok(Reply::Granted { .. }))).await;
        began.elapsed()
    };
    let (evicted, succeeded) = tokio::join!(side.evict(0, EPOCH, OwnerId::from_bits(1), 50), succeeded);
    assert_eq!(evicted, Ok(Eviction::Evicted { deleted: true }));
    assert!((EVICTION_GAP..EVICTION_GAP * 8).contains(&succeeded), "{succeeded:?}");
}

// promise: forced-release, fencing
#[tokio::test]
async fn an_eviction_of_a_free_lock_notices_a_holder_that_takes_it_meanwhile() {
    let side = Side::new(node(&ZooKeeperServer::shared().await)).await;
    for number in 0..400 {
        let (keys, owner) = (LockKeys::new(&side.keyspace, &format!("race-{number}")), OwnerId::from_bits(1));
        let token = number << 20;
        // Some are before the eviction, some after it, and some between two of its requests.
        let pause = Duration::from_micros(50) * u32::try_from(number % 80).unwrap();
        let acquired = async {
            let began = Instant::now();
            while began.elapsed() < pause {
                yield_now().await;
            }
            let operation = acquire(owner, TTL);
            let waiter = WaiterId::from_bits(1);
            ask(&side.node, Request { keys: keys.clone(), epoch: EPOCH, waiter, polls: false, operation }).await
        };
        let evict = Evict { keys: keys.clone(), epoch: EPOCH, holders: Vec::new(), token, barred_for: TTL };
        let (acquired, evicted) = tokio::join!(acquired, side.node.evict(evict));
        let Ok(Reply::Granted { token: granted }) = acquired else { panic!("{acquired:?}") };
        match evicted {
            Ok(Eviction::Evicted { .. }) => {
                assert!(granted > token, "{granted} was overlooked by {token}, after {pause:?}");
            }
            Ok(Eviction::Superseded | Eviction::Refused { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

// promise: zookeeper
#[tokio::test]
async fn requests_about_one_owner_take_effect_in_the_order_in_which_they_were_submitted() {
    let side = Side::new(node(&ZooKeeperServer::shared().await)).await;
    for number in 1..30 {
        let owner = OwnerId::from_bits(number);
        // The fence is not known yet in the first of them, so the acquire takes two round trips.
        let operations = [
            acquire(owner, TTL),
            Operation::Extend { owner, ttl: TTL },
            Operation::Release { owner, position: QueuePosition::None },
        ];
        let replies = futures_util::future::join_all(operations.map(|operation| side.send(0, EPOCH, operation))).await;
        let token = u64::try_from(number).unwrap();
        assert_eq!(replies, [Ok(Reply::Granted { token }), Ok(Reply::Kept), Ok(Reply::Released)]);
    }
    assert_eq!(side.look(Some(EPOCH)).await.unwrap()[0].holder, None);
}

// promise: zookeeper
#[tokio::test]
async fn a_release_that_was_lost_is_repeated_and_a_lock_that_nobody_renews_ends_with_its_ttl() {
    let mut server = ZooKeeperServer::start().await;
    let side = Side::new(node(&server.address())).await;
    let [released, forgotten] = [1, 2].map(OwnerId::from_bits);
    let began = Instant::now();
    assert_eq!(side.send(0, EPOCH, acquire(released, TTL)).await, Ok(Reply::Granted { token: 1 }));
    let ttl = Duration::from_millis(300);
    assert_eq!(side.send(1, EPOCH, acquire(forgotten, ttl)).await, Ok(Reply::Granted { token: 1 }));
    let holder = async |lock: usize| side.look(Some(EPOCH)).await.map(|states| states[lock].holder.clone());
    assert_eq!(holder(1).await, Ok(Some(Holder::Owner(forgotten))));
    eventually_async("it ends with its ttl", async || holder(1).await == Ok(None)).await;
    assert!(began.elapsed() >= ttl);

    server.kill();
    let release = Operation::Release { owner: released, position: QueuePosition::None };
    side.node.disconnected().await;
    assert!(matches!(side.send(0, EPOCH, release).await, Err(NodeError::Unreachable { .. })));
    server.start_again().await;
    eventually_async("it is released", async || holder(0).await == Ok(None)).await;
    assert!(began.elapsed() < TTL, "{:?}: it ended with its ttl, or the session", began.elapsed());
}

#[tokio::test]
async fn a_lock_that_is_granted_when_nobody_waits_for_it_any_more_is_given_back() {
    let server = ZooKeeperServer::start().await;
    let side = Side::new(node(&server.address())).await;
    let owner = OwnerId::from_bits(1);
    let operation = acquire(owner, TTL);
    let (keys, waiter) = (side.locks[0].clone(), WaiterId::from_bits(1));
    let (reply_to, reply) = ReplySender::channel();
    server.pause();
    side.node.submit(Request { keys, epoch: EPOCH, waiter, polls: false, operation }, reply_to);
    // Sent, and not answered.
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(reply);
    server.resume();
    let state = async || side.look(Some(EPOCH)).await.map(|states| (states[0].holder.clone(), states[0].fence));
    eventually_async("it was granted, and given back", async || state().await == Ok((None, 1))).await;
}

// promise: zookeeper
#[tokio::test]
async fn a_place_that_is_left_without_a_connection_is_deleted_when_there_is_one_again() {
    let mut server = ZooKeeperServer::start().await;
    let side = Side::new(node(&server.address())).await;
    let acquire = |owner, since| acquire_since(since, OwnerId::from_bits(owner), TTL);
    assert_eq!(side.send(0, EPOCH, acquire(1, None)).await, Ok(Reply::Granted { token: 1 }));
    assert!(matches!(side.send(0, EPOCH, acquire(2, NonZeroU64::new(1))).await, Ok(Reply::Held { .. })));
    let waiters = async || side.look(Some(EPOCH)).await.map(|states| states[0].waiters);
    assert_eq!(waiters().await, Ok(1));

    server.kill();
    side.node.disconnected().await;
    let left = side.send(0, EPOCH, Operation::LeaveQueue).await;
    assert!(matches!(left, Err(NodeError::Unreachable { .. })), "{left:?}");
    server.start_again().await;
    eventually_async("nobody waits", async || waiters().await == Ok(0)).await;
}

// promise: zookeeper
#[tokio::test]
async fn a_waiter_whose_place_was_deleted_because_its_turn_passed_takes_the_same_place_again() {
    let address = ZooKeeperServer::shared().await;
    let first = Side::new(node(&address)).await;
    let second = first.beside(node(&address)).await;
    let acquire = |owner, since| acquire_since(since, OwnerId::from_bits(owner), TTL);
    let (early, late) = (acquire(2, NonZeroU64::new(1)), acquire(3, NonZeroU64::new(2)));
    let waiters = async || first.look(Some(EPOCH)).await.unwrap()[0].waiters;
    assert_eq!(first.send(0, EPOCH, acquire(1, None)).await, Ok(Reply::Granted { token: 1 }));
    assert!(matches!(first.send(0, EPOCH, early).await, Ok(Reply::Held { .. })));
    assert!(matches!(second.send(0, EPOCH, late).await, Ok(Reply::Held { .. })));
    assert_eq!(waiters().await, 2);
    let release = Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::None };
    assert_eq!(first.send(0, EPOCH, release).await, Ok(Reply::Released));
    let granted = async || second.send(0, EPOCH, late).await == Ok(Reply::Granted { token: 2 });
    eventually_async("the turn of the first passes", granted).await;
    eventually_async("its place is deleted", async || waiters().await == 0).await;
    assert!(matches!(first.send(0, EPOCH, early).await, Ok(Reply::Held { .. })));
    assert_eq!(waiters().await, 1);
}
