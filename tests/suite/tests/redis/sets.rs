//! Several locks at once on real servers.

use std::time::Duration;

use lock_support::{RedisCluster, RedisServer, all_nodes_vote};

/// How many times the server has run a script.
async fn calls(server: &RedisServer) -> u64 {
    let stats: String = server.query("INFO commandstats").await;
    let of =
        |command| stats.lines().find_map(move |line| line.strip_prefix(command)?.split([',']).next()?.parse().ok());
    let [by_hash, by_source] =
        ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="].map(|command| of(command).unwrap_or(0));
    by_hash + by_source
}

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
            before.push(calls(server).await);
        }
        let set = locks.lock_all(names).acquire().await.unwrap();
        for (server, before) in cluster.servers.iter().zip(before) {
            assert_eq!(calls(server).await - before, 1, "round {round}");
        }
        set.release().await.unwrap();
        cluster.no_lock_is_left().await;
    }
}
