//! The scripts on a real server and the in-memory node keep the same rules.

use lock_core::RedisNode;
use lock_support::RedisServer;

use crate::equivalence::{
    check_a_release_that_is_refused, compare, compare_gaps_after_evictions, compare_joining_readers_of_a_kept_lock,
    compare_offers_to_a_long_queue, compare_reservations_that_pass, compare_ttls,
};

// promise: readers
#[test]
fn the_scripts_and_the_in_memory_node_reply_alike() {
    compare_many(300, 1);
}

#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn the_scripts_and_the_in_memory_node_reply_alike_for_long() {
    compare_many(600, 3);
}

fn compare_many(cases: u32, together: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(RedisServer::start());
    compare(cases, together, || RedisNode::from_url(&server.url()).unwrap());
}

#[tokio::test]
async fn a_ttl_ends_alike_on_both() {
    let server = RedisServer::start().await;
    compare_ttls(RedisNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn readers_that_join_while_the_lock_is_kept_for_another_end_that_alike() {
    let server = RedisServer::start().await;
    compare_joining_readers_of_a_kept_lock(RedisNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn a_long_queue_is_offered_the_lock_alike() {
    let server = RedisServer::start().await;
    compare_offers_to_a_long_queue(|| RedisNode::from_url(&server.url()).unwrap()).await;
}

// promise: forced-release
#[tokio::test]
async fn an_evicted_lock_is_granted_to_nobody_for_a_moment_alike() {
    let server = RedisServer::start().await;
    compare_gaps_after_evictions(|| RedisNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn a_reservation_passes_alike() {
    let server = RedisServer::start().await;
    compare_reservations_that_pass(RedisNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn a_release_that_the_server_refuses_wakes_nobody() {
    let server = RedisServer::start().await;
    let node = RedisNode::from_url(&server.url()).unwrap();
    let refuse_writes = async || server.query::<()>("CONFIG SET min-replicas-to-write 1").await;
    check_a_release_that_is_refused(node, refuse_writes).await;
}
