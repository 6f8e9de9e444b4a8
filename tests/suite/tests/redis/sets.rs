//! Several locks at once on real servers.

use std::time::Duration;

use lock_support::{RedisCluster, all_nodes_vote, eventually_async};

// promise: several-locks
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_free_locks_are_one_script_call_on_each_node() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().ttl(Duration::from_secs(20)).connect().await.unwrap();
    all_nodes_vote(&locks).await;
    for round in 0..20 {
        // Nothing else is sent meanwhile: the last release is done, and nothing is due for renewal.
        let names: Vec<_> = (0..5).map(|name| format!("{round}:{name}")).collect();
        let mut before = Vec::new();
        for server in &cluster.servers {
            before.push(server.script_calls().await);
        }
        let set = locks.lock_all(names).acquire().await.unwrap();
        for (server, before) in cluster.servers.iter().zip(before) {
            // A majority is enough for the grant: the last node may not have executed it yet.
            eventually_async("the node executes it", async || server.script_calls().await > before).await;
            assert_eq!(server.script_calls().await - before, 1, "round {round}");
        }
        set.release().await.unwrap();
        cluster.no_lock_is_left().await;
    }
}
