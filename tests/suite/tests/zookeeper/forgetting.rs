use std::sync::Arc;
use std::time::Duration;

use lock_core::node::Keyspace;
use lock_core::{LockError, LockNode as _};
use lock_support::{ZooKeeperServer, eventually_async};
use tokio::time::Instant;

use crate::set::{MAX_TTL, connect, node};

// promise: zookeeper
#[tokio::test]
#[ignore = "long: bash tests/run.sh --long"]
async fn a_server_that_lost_its_data_is_another_memory_and_its_tokens_go_on() {
    let mut server = ZooKeeperServer::start().await;
    let locks = connect(&server.address()).await;
    let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let granted = Instant::now();
    let token = guard.token();
    let keyspace = Arc::new(Keyspace::new("lock:"));
    let before = node(&server.address()).inspect(&keyspace).await.unwrap().run_id;

    server.kill();
    server.start_again().await;
    let kept = node(&server.address()).inspect(&keyspace).await.unwrap().run_id;
    assert_eq!(before, kept, "a restart loses nothing");

    server.kill();
    server.lose_data();
    server.start_again().await;
    let lost = node(&server.address()).inspect(&keyspace).await.unwrap().run_id;
    assert_ne!(before, lost);
    // A manager that knew the set does not take the empty memory for the old one, before everything is over that it may have forgotten.
    let mut next = None;
    eventually_async("the lock is granted again", async || {
        next = match locks.lock("r").wait(Duration::from_millis(100)).acquire().await {
            Ok(guard) => Some(guard),
            Err(LockError::NoQuorum { .. } | LockError::Contended { .. }) => None,
            Err(error) => panic!("{error}"),
        };
        next.is_some()
    })
    .await;
    assert!(granted.elapsed() >= MAX_TTL && !guard.is_valid(), "{:?}", granted.elapsed());
    assert!(next.unwrap().token() > token);
}

// promise: zookeeper
#[tokio::test]
async fn a_set_whose_znodes_were_deleted_grants_nothing_under_its_former_epoch() {
    let address = ZooKeeperServer::shared().await;
    let (ours, theirs) = (connect(&address).await, connect(&address).await);
    let guard = ours.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let granted = Instant::now();
    let (server, root) = address.split_once('/').unwrap();
    delete_all(server, &format!("/{root}")).await;
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(!guard.is_valid() && granted.elapsed() >= MAX_TTL, "{:?}", granted.elapsed());
    assert!(next.token() > guard.token());
}

/// Deletes a znode, and all that is below it.
async fn delete_all(server: &str, path: &str) {
    let client = zookeeper_client::Client::connect(server).await.unwrap();
    let (mut paths, mut at) = (vec![path.to_owned()], 0);
    while at < paths.len() {
        let children = client.list_children(&paths[at]).await.unwrap();
        paths.extend(children.into_iter().map(|child| format!("{}/{child}", paths[at])).collect::<Vec<_>>());
        at += 1;
    }
    for path in paths.iter().rev() {
        _ = client.delete(path, None).await;
    }
}
