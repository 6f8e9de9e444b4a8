//! Real Redis Clusters.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::FromRedisValue;

use super::{PROGRAM, RedisServer, free_port};
use crate::authority::Authority;
use crate::wait::eventually_async;

/// How many slots there are.
const SLOTS: usize = 1 << 14;
/// The node timeout is in milliseconds what [`SlotCluster::NODE_TIMEOUT`] is.
const ARGUMENTS: [&str; 6] =
    ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"];

/// A Redis Cluster: primaries, which share the slots evenly, and behind them as many replicas for each. Put together by commands, as
/// `redis-cli --cluster create` does it, which refuses to make one of fewer than three primaries.
pub struct SlotCluster {
    /// The primaries, and then their replicas, in the same order.
    pub servers: Vec<RedisServer>,
    pub(super) primaries: usize,
}

impl SlotCluster {
    /// For how long a server has to be silent to be taken for dead: long enough for a busy machine.
    pub const NODE_TIMEOUT: Duration = Duration::from_secs(2);

    /// Starts a cluster of this many primaries, each with this many replicas, and waits until all agree on it.
    pub async fn start(primaries: usize, replicas: usize) -> Self {
        Self::start_with(primaries, replicas, &[]).await
    }

    /// Starts a cluster of servers with additional arguments.
    pub async fn start_with(primaries: usize, replicas: usize, arguments: &[&str]) -> Self {
        Self::start_program(Path::new(PROGRAM), primaries, replicas, arguments).await
    }

    /// Starts a cluster of servers of another program.
    pub async fn start_program(program: &Path, primaries: usize, replicas: usize, arguments: &[&str]) -> Self {
        let arguments = Self::arguments(arguments);
        let servers = (0..primaries * (1 + replicas)).map(|_| RedisServer::start_program(program, &arguments));
        let cluster = Self { servers: join_all(servers).await, primaries };
        cluster.put_together(&cluster.servers[0].port().to_string()).await;
        cluster.add_replicas().await;
        cluster
    }

    /// The arguments of a server of a cluster, with others that have precedence.
    pub(super) fn arguments<'a>(others: &[&'a str]) -> Vec<&'a str> {
        [&ARGUMENTS, others].concat()
    }

    /// Makes the servers behind the primaries their replicas.
    pub(super) async fn add_replicas(&self) {
        for (place, replica) in self.servers.iter().enumerate().skip(self.primaries) {
            let of = self.id(place % self.primaries).await;
            replica.query::<String>(&format!("CLUSTER REPLICATE {of}")).await;
        }
        for replica in &self.servers[self.primaries..] {
            eventually_async("a replica is in sync", async || replica.is_in_sync().await).await;
        }
        if self.servers.len() > self.primaries {
            self.all_agree().await;
        }
    }

    /// Starts a cluster of this many primaries, which talk to each other over TLS. Returns it with the ports at which they speak TLS to clients.
    pub async fn start_over_tls(authority: &Authority, primaries: usize) -> (Self, Vec<u16>) {
        let arguments = [&ARGUMENTS[..], &["--tls-cluster", "yes", "--tls-auth-clients", "no"]].concat();
        let (mut servers, mut ports) = (Vec::new(), Vec::new());
        let buses: Vec<_> = (0..primaries).map(|_| free_port().to_string()).collect();
        // One after another: each certificate is in the file of the one before.
        for bus in &buses {
            // By default, it would be a port that the kernel may have taken for an outgoing connection.
            let arguments = [&arguments[..], &["--cluster-port", bus]].concat();
            let (server, port) = authority.server("127.0.0.1", &arguments).await;
            servers.push(server);
            ports.push(port);
        }
        let cluster = Self { servers, primaries };
        cluster.put_together(&format!("{} {}", ports[0], buses[0])).await;
        (cluster, ports)
    }

    /// Gives the primaries their slots, and lets all meet the first server, at this port, or at this one and that of its bus.
    pub(super) async fn put_together(&self, first: &str) {
        for (place, server) in self.servers.iter().enumerate() {
            server.query::<String>(&format!("CLUSTER SET-CONFIG-EPOCH {}", place + 1)).await;
            if place < self.primaries {
                let (from, to) = (place * SLOTS / self.primaries, (place + 1) * SLOTS / self.primaries - 1);
                server.query::<String>(&format!("CLUSTER ADDSLOTSRANGE {from} {to}")).await;
            }
            if place > 0 {
                server.query::<String>(&format!("CLUSTER MEET 127.0.0.1 {first}")).await;
            }
        }
        self.all_agree().await;
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

    /// Moves a slot to another primary with all its keys at once (`CLUSTER MIGRATESLOTS`, Valkey 9). Returns when it has it.
    pub async fn move_slot_at_once(&self, slot: u16, from: usize, to: usize) {
        let to_id = self.id(to).await;
        let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {to_id}");
        assert_eq!(self.servers[from].query::<String>(&command).await, "OK");
        eventually_async("the slot has moved", async || self.owner(slot).await == Some(to)).await;
    }

    /// Has a replica take the place of its primary, which agrees. Returns when it has.
    pub async fn fail_over(&self, replica: usize) {
        let server = &self.servers[replica];
        let mut asked: Option<Instant> = None;
        eventually_async("the replica is a primary", async || {
            // It gives up if it does not get its votes in time: when the others do not know yet that it is a replica, say.
            if !server.is_primary().await && asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(2)) {
                _ = server.try_query::<String>("CLUSTER FAILOVER").await;
                asked = Some(Instant::now());
            }
            server.is_primary().await
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
