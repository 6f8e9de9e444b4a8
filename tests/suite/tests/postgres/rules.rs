//! The functions in a real database and the in-memory node keep the same rules.

use std::sync::Arc;

use lock_core::PostgresNode;
use lock_support::PostgresServer;

use crate::equivalence::{
    compare, compare_gaps_after_evictions, compare_joining_readers_of_a_kept_lock, compare_offers_to_a_long_queue,
    compare_reservations_that_pass, compare_ttls,
};

// promise: postgresql
#[test]
fn the_functions_and_the_in_memory_node_reply_alike() {
    compare_many(20);
}

#[test]
#[ignore = "long: bash tests/run.sh --long"]
fn the_functions_and_the_in_memory_node_reply_alike_for_long() {
    compare_many(300);
}

fn compare_many(cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(PostgresServer::start());
    // One for all sequences: each has keys of its own, and a session takes longer to prepare than a sequence.
    let node = Arc::new(PostgresNode::from_url(&server.url()).unwrap());
    compare(cases, 3, || Arc::clone(&node));
}

// promise: postgresql
#[tokio::test]
async fn a_ttl_ends_alike_on_both() {
    let server = PostgresServer::start().await;
    compare_ttls(PostgresNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn readers_that_join_while_the_lock_is_kept_for_another_end_that_alike() {
    let server = PostgresServer::start().await;
    compare_joining_readers_of_a_kept_lock(PostgresNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn a_long_queue_is_offered_the_lock_alike() {
    let server = PostgresServer::start().await;
    let node = Arc::new(PostgresNode::from_url(&server.url()).unwrap());
    compare_offers_to_a_long_queue(|| Arc::clone(&node)).await;
}

#[tokio::test]
async fn an_evicted_lock_is_granted_to_nobody_for_a_moment_alike() {
    let server = PostgresServer::start().await;
    compare_gaps_after_evictions(|| PostgresNode::from_url(&server.url()).unwrap()).await;
}

#[tokio::test]
async fn a_reservation_passes_alike() {
    let server = PostgresServer::start().await;
    compare_reservations_that_pass(PostgresNode::from_url(&server.url()).unwrap()).await;
}
