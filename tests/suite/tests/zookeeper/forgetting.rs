use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Keyspace, OwnerId};
use lock_core::{LockError, LockNode as _, NodeError};
use lock_support::{ZooKeeperServer, all_nodes_vote, eventually_async};
use tokio::time::Instant;
use zookeeper_client::Client;

use crate::set::{MAX_TTL, connect, node};
use crate::side::{EPOCH, Side, TTL, acquire};

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

// promise: zookeeper, exclusion
#[tokio::test]
async fn a_set_whose_memory_is_deleted_grants_nothing_until_its_locks_are_over() {
    let address = ZooKeeperServer::shared().await;
    let (ours, theirs) = (connect(&address).await, connect(&address).await);
    let nodes: Vec<_> = (0..8).map(|_| node(&address)).collect();
    let keyspace = Arc::new(Keyspace::new("lock:"));
    let before = nodes[0].inspect(&keyspace).await.unwrap().run_id;
    let guard = ours.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let (client, root) = client(&address).await;
    let all = async |part: &str| {
        let all = below(&client, &root).await;
        all.into_iter().filter(|path| path.contains(part)).collect::<Vec<_>>()
    };
    let began = Instant::now();
    for memory in all("/memory-").await {
        client.delete(&memory, None).await.unwrap();
    }
    // Who comes too late to create another one looks again.
    join_all(nodes.iter().map(|node| node.inspect(&keyspace))).await;
    let after = nodes[0].inspect(&keyspace).await.unwrap().run_id;
    assert_ne!(before, after);
    assert_eq!(all("/memory-").await.len(), 1);
    assert!(guard.is_valid());
    while guard.is_valid() {
        let rival = theirs.lock("r").try_acquire().await;
        assert!(rival.is_err() || !guard.is_valid());
    }
    all_nodes_vote(&theirs).await;
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(began.elapsed() >= MAX_TTL && next.token() > guard.token(), "{:?}", began.elapsed());
}

// promise: zookeeper
#[tokio::test]
async fn a_set_of_which_a_part_is_deleted_is_another_memory_and_nobody_is_admitted_to_the_former() {
    let address = ZooKeeperServer::shared().await;
    let (client, root) = client(&address).await;
    let keyspace = Arc::new(Keyspace::new("rules:"));
    for part in ["fences", "locks", "owners", "evicted", "queues", "clock", "memory-"] {
        let address = format!("{address}/{part}");
        let side = Side::new(node(&address)).await;
        let before = side.node.inspect(&keyspace).await.unwrap().run_id;
        let set = format!("{root}/{part}/rules:");
        let names = client.list_children(&set).await.unwrap();
        let name = names.iter().find(|name| name.starts_with(part)).unwrap();
        client.delete(&format!("{set}/{name}"), None).await.unwrap();
        let after = node(&address).inspect(&keyspace).await.unwrap();
        assert!(after.run_id != before && after.record.get().unwrap().run_id == before, "{part}");
        let refused = side.send(0, EPOCH, acquire(OwnerId::from_bits(1), TTL)).await;
        assert_eq!(refused, Err(NodeError::Unadmitted), "{part}");
        let names = client.list_children(&set).await.unwrap();
        // Five directories, clock, memory and record.
        assert_eq!(names.len(), 8, "{part}: {names:?}");
    }
}

// promise: zookeeper
#[tokio::test]
async fn a_set_whose_znodes_were_deleted_is_formed_again_and_its_tokens_go_on() {
    let address = ZooKeeperServer::shared().await;
    let (ours, theirs) = (connect(&address).await, connect(&address).await);
    let guard = ours.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let (client, root) = client(&address).await;
    for path in below(&client, &root).await {
        _ = client.delete(&path, None).await;
        // What the services do about it comes between, and some of it is deleted as well.
        _ = theirs.lock("another").try_acquire().await;
    }
    all_nodes_vote(&theirs).await;
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(next.token() > guard.token());
}

/// A client, and the path where everything is kept.
async fn client(address: &str) -> (Client, String) {
    let (server, path) = address.split_once('/').unwrap();
    (Client::connect(server).await.unwrap(), format!("/{path}"))
}

/// A znode, and all that is below it: before each znode those that are below it.
async fn below(client: &Client, path: &str) -> Vec<String> {
    let (mut paths, mut at) = (vec![path.to_owned()], 0);
    while at < paths.len() {
        let children = client.list_children(&paths[at]).await.unwrap();
        paths.extend(children.into_iter().map(|child| format!("{}/{child}", paths[at])).collect::<Vec<_>>());
        at += 1;
    }
    paths.reverse();
    paths
}
