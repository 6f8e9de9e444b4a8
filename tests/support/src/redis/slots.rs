//! Real Redis Clusters.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::FromRedisValue;

use super::RedisServer;
use crate::wait::eventually_async;

/// How many slots there are.
const SLOTS: usize = 1 << 14;

/// A Redis Cluster: primaries, which share the slots evenly, and behind them as many replicas for each. Put together by commands, as
/// `redis-cli --cluster create` does it, which refuses to make one of fewer than three primaries.
pub struct SlotCluster {
    /// The primaries, and then their replicas, in the same order.
    pub servers: Vec<RedisServer>,
    primaries: usize,
}

impl SlotCluster {
    /// Starts a cluster of so many primaries, each with so many replicas, and waits until all agree on it.
    pub async fn start(primaries: usize, replicas: usize) -> Self {
        // Long enough for a busy machine not to take a server for dead.
        let arguments =
            ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"];
        let servers = join_all((0..primaries * (1 + replicas)).map(|_| RedisServer::start_with(&arguments))).await;
        let cluster = Self { servers, primaries };
        let first = cluster.servers[0].port();
        for (place, server) in cluster.servers.iter().enumerate() {
            server.query::<String>(&format!("CLUSTER SET-CONFIG-EPOCH {}", place + 1)).await;
            if place < primaries {
                let (from, to) = (place * SLOTS / primaries, (place + 1) * SLOTS / primaries - 1);
                server.query::<String>(&format!("CLUSTER ADDSLOTSRANGE {from} {to}")).await;
            }
            if place > 0 {
                server.query::<String>(&format!("CLUSTER MEET 127.0.0.1 {first}")).await;
            }
        }
        cluster.all_agree().await;
        for (place, replica) in cluster.servers.iter().enumerate().skip(primaries) {
            let of = cluster.id(place % primaries).await;
            replica.query::<String>(&format!("CLUSTER REPLICATE {of}")).await;
        }
        for replica in &cluster.servers[primaries..] {
            eventually_async("a replica is in sync", async || {
                replica.query::<String>("INFO replication").await.contains("master_link_status:up")
            })
            .await;
        }
        if replicas > 0 {
            cluster.all_agree().await;
        }
        cluster
    }

    /// The hosts of some servers as one URL.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().take(3).map(RedisServer::address).collect();
        format!("redis://{}", hosts.join(","))
    }

    /// Waits until every server knows all others, and the same owner of each slot.
    pub async fn all_agree(&self) {
        eventually_async("all servers agree on the cluster", async || {
            let all = format!("cluster_known_nodes:{}\r\n", self.servers.len());
            let mut seen = Vec::new();
            for server in &self.servers {
                let Ok(info) = server.try_query::<String>("CLUSTER INFO").await else { return false };
                if !info.contains("cluster_state:ok") || !info.contains(&all) {
                    return false;
                }
                let nodes: String = server.query("CLUSTER NODES").await;
                let slots = |line: &str| {
                    line.split(' ').next().map(str::to_owned).zip(line.split(' ').nth(8).map(str::to_owned))
                };
                let mut owners: Vec<_> = nodes.lines().filter_map(slots).collect();
                owners.sort();
                seen.push(owners);
            }
            seen.iter().all(|owners| *owners == seen[0])
        })
        .await;
    }

    /// The id of a server.
    pub async fn id(&self, server: usize) -> String {
        self.servers[server].query("CLUSTER MYID").await
    }

    /// Which server says that it owns a slot.
    pub async fn owner(&self, slot: u16) -> Option<usize> {
        for (place, server) in self.servers.iter().enumerate() {
            let Ok(nodes) = server.try_query::<String>("CLUSTER NODES").await else { continue };
            let Some(own) = nodes.lines().find(|line| line.contains("myself,master")) else { continue };
            let ranges = own.split(' ').skip(8).filter(|range| !range.starts_with('['));
            let mut ranges = ranges.map(|range| range.split_once('-').unwrap_or((range, range)));
            if ranges.any(|(from, to)| (from.parse().unwrap()..=to.parse().unwrap()).contains(&slot)) {
                return Some(place);
            }
        }
        None
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        self.servers[0].query(&format!("CLUSTER KEYSLOT {key}")).await
    }

    /// Moves a slot to another primary key by key, with a pause after each.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize, pause: Duration) {
        let (source, target) = (&self.servers[from], &self.servers[to]);
        let (from_id, to_id) = (self.id(from).await, self.id(to).await);
        target.query::<String>(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).await;
        source.query::<String>(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).await;
        loop {
            let keys: Vec<String> = source.query(&format!("CLUSTER GETKEYSINSLOT {slot} 1")).await;
            let Some(key) = keys.first() else { break };
            // An empty key, because several may be named.
            let port = target.port();
            source.query::<redis::Value>(&format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {key}")).await;
            tokio::time::sleep(pause).await;
        }
        // The new owner first, so that there is no time without one.
        target.query::<String>(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")).await;
        source.query::<String>(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")).await;
    }

    /// Has a replica take the place of its primary, which agrees. Returns when it has.
    pub async fn fail_over(&self, replica: usize) {
        let server = &self.servers[replica];
        let is_primary = async || server.query::<String>("INFO replication").await.contains("role:master");
        let mut asked: Option<Instant> = None;
        eventually_async("the replica is a primary", async || {
            // It gives up if it does not get its votes in time: when the others do not know yet that it is a replica, say.
            if !is_primary().await && asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(2)) {
                _ = server.try_query::<String>("CLUSTER FAILOVER").await;
                asked = Some(Instant::now());
            }
            is_primary().await
        })
        .await;
    }

    /// The replica of a primary, by their places at the start.
    #[must_use]
    pub fn replica_of(&self, primary: usize) -> usize {
        primary + self.primaries
    }

    /// The keys that match a pattern, on the servers that were primaries at the start.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        join_all(self.servers[..self.primaries].iter().map(|server| server.keys(pattern))).await.concat()
    }

    /// The answers of all servers to a command.
    pub async fn query_all<T: FromRedisValue>(&self, command: &str) -> Vec<T> {
        join_all(self.servers.iter().map(|server| server.query(command))).await
    }
}
