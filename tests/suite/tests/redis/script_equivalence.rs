//! The scripts on a real server keep the rules of the in-memory node.

use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::StreamExt as _;
use lock_core::node::conformance::Conformance;
use lock_core::node::{Kind, Operation, OwnerId, QueuePosition, RESERVATION_TTL, Reply};
use lock_core::{LockManager, RedisNode};
use lock_support::{RawNode, RedisServer};
use tokio::time::timeout;

// promise: readers, forced-release
#[tokio::test]
async fn the_scripts_and_the_in_memory_node_reply_alike() {
    compare(300).await;
}

#[tokio::test]
#[ignore = "long: bash tests/run.sh --long"]
async fn the_scripts_and_the_in_memory_node_reply_alike_for_long() {
    compare(2000).await;
}

async fn compare(sequences: u64) {
    let server = RedisServer::start().await;
    let node = || RedisNode::from_url(&server.url()).unwrap();
    let report = Conformance::default().sequences(sequences).check(node).await.unwrap();
    assert!(report.compared as u64 > 5 * sequences, "{report:?}");
}

#[tokio::test]
async fn a_release_that_the_server_refuses_wakes_nobody() {
    let server = RedisServer::start().await;
    let locks = LockManager::builder().redis([server.url()]).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    let raw = RawNode::admitted(RedisNode::from_url(&server.url()).unwrap(), "lock:").await;
    let mut wakeups = raw.listen().await;
    let (owner, ttl, since) = (OwnerId::from_bits(1), Duration::from_secs(5), NonZeroU64::new(1));
    let wait = Operation::Acquire { owner, ttl, hint: 0, tokens: 1, since, kind: Kind::Write };
    assert!(matches!(raw.send("r", wait).await, Ok(Reply::Held { .. })));
    server.query::<()>("CONFIG SET min-replicas-to-write 1").await;
    assert!(guard.release().await.is_err());
    assert!(timeout(RESERVATION_TTL, wakeups.next()).await.is_err(), "the lock is still held");
}

// promise: turns
#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_free_lock_from_those_who_wait() {
    let server = RedisServer::start_with_clock(600).await;
    let _locks = LockManager::builder().redis([server.url()]).connect().await.unwrap();
    let raw = RawNode::admitted(RedisNode::from_url(&server.url()).unwrap(), "lock:").await;
    let _wakeups = raw.listen().await;
    for (resource, kind) in [("r", Kind::Write), ("slots{0}", Kind::Permit { of: 1 })] {
        server.step_clock(600);
        let acquire = |owner, since| Operation::Acquire {
            owner: OwnerId::from_bits(owner),
            ttl: Duration::from_secs(5),
            hint: 0,
            tokens: 1,
            since: NonZeroU64::new(since),
            kind,
        };
        assert_eq!(raw.send(resource, acquire(1, 0)).await, Ok(Reply::Granted { token: 1 }));
        assert!(matches!(raw.send(resource, acquire(2, 1)).await, Ok(Reply::Held { .. })));
        let release = Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::None };
        assert_eq!(raw.send(resource, release).await, Ok(Reply::Released));
        server.step_clock(0);
        assert_eq!(raw.send(resource, acquire(2, 1)).await, Ok(Reply::Granted { token: 2 }), "{resource}");
    }
}
