//! The functions in a real database keep the rules of the in-memory node.

use std::sync::Arc;

use lock_core::PostgresNode;
use lock_core::node::conformance::Conformance;
use lock_support::PostgresServer;

// promise: postgresql
#[tokio::test]
async fn the_functions_and_the_in_memory_node_reply_alike() {
    compare(20).await;
}

#[tokio::test]
#[ignore = "long: bash tests/run.sh --long"]
async fn the_functions_and_the_in_memory_node_reply_alike_for_long() {
    compare(300).await;
}

async fn compare(sequences: u64) {
    let server = PostgresServer::start().await;
    // One for all sequences: a session takes longer to prepare than a sequence.
    let node = Arc::new(PostgresNode::from_url(&server.url()).unwrap());
    let report = Conformance::default().sequences(sequences).check(|| Arc::clone(&node)).await.unwrap();
    assert!(report.compared as u64 > 5 * sequences, "{report:?}");
}
