//! The scripts on a real server keep the rules of the in-memory node.

use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::StreamExt as _;
use lock_core::node::conformance::Conformance;
use lock_core::node::{Kind, Operation, OwnerId, RESERVATION_TTL, Reply};
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
