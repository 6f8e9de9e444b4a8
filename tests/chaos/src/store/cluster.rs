//! A Redis Cluster is one master, and so one server to the rest of the run. A fault hits the primary that has one of the shards, and each
//! fault that of another one.

use std::time::Duration;

use lock_core::LockManagerBuilder;
use lock_support::{Bus, RedisServer, SlotCluster};
use redis::RedisResult;
use tokio::time::{sleep, timeout};

use super::super::fault::Kind;
use super::super::{NODE_TIMEOUT, PREFIX};
use super::redis::{self as of_server, REPLY_TIMEOUT, is_own_record};

/// How many shards there are. More than primaries, so that two are on one.
const SHARDS: u32 = 4;
/// The primaries of a cluster. Fewer could not replace one that is lost: most of them have to agree.
const PRIMARIES: usize = 3;
/// The pause after each key of a slot that moves.
const PAUSE: Duration = Duration::from_millis(5);
/// How often a cluster is asked whether it votes: every server is asked.
const LOOK: Duration = Duration::from_millis(50);

pub(super) const FAULTS: [Kind; 10] = [
    Kind::FailOver,
    Kind::MoveSlot,
    Kind::LosePrimary,
    Kind::StopPrimary,
    Kind::CutOffPrimary,
    Kind::KillServer,
    Kind::StopServer,
    Kind::FlushServer,
    Kind::FlushScripts,
    Kind::PauseClients,
];

/// Clusters as the masters of a manager. One alone has no majority to ask when it loses a lock: what its replicas have counts.
pub(in super::super) fn named_in(builder: LockManagerBuilder, clusters: &[String]) -> LockManagerBuilder {
    let builder = builder.redis_cluster(clusters).shards(SHARDS);
    if clusters.len() == 1 { builder.replicated(1, NODE_TIMEOUT) } else { builder }
}

/// A cluster, and what is done to it.
pub(in super::super) struct Cluster {
    cluster: SlotCluster,
    /// Over which its servers talk to each other.
    bus: Bus,
    /// How many faults there were.
    faults: usize,
    /// The server that was killed or stopped.
    hit: Option<usize>,
}

impl Cluster {
    pub(super) async fn start(arguments: &[&str]) -> Self {
        let (cluster, bus) = SlotCluster::start_with_bus(PRIMARIES, 1, arguments).await;
        Self { cluster, bus, faults: 0, hit: None }
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.cluster.servers.iter().map(RedisServer::address).collect()
    }

    pub(super) async fn inject(&mut self, kind: Kind, duration: Duration) -> Result<(), String> {
        if kind == Kind::StopServer {
            self.cluster.servers.iter().for_each(RedisServer::stop);
            return Ok(());
        }
        let (slot, primary) = self.next_shard().await?;
        match kind {
            Kind::KillServer | Kind::LosePrimary => {
                self.cluster.servers[primary].kill();
                self.hit = Some(primary);
            }
            Kind::StopPrimary => {
                self.cluster.servers[primary].stop();
                self.hit = Some(primary);
            }
            Kind::CutOffPrimary => self.bus.cut_off(&self.cluster, primary),
            Kind::FailOver => {
                let replica = self.replica_of(primary).await.ok_or("a primary has no replica")?;
                self.cluster.fail_over(replica).await;
            }
            Kind::MoveSlot => {
                let primaries = self.primaries().await;
                let target =
                    primaries.into_iter().find(|other| *other != primary).ok_or("there is no other primary")?;
                self.cluster.move_slot(slot, primary, target, PAUSE).await;
            }
            kind => of_server::inject(&mut self.cluster.servers[primary], kind, duration).await?,
        }
        Ok(())
    }

    pub(super) async fn heal(&mut self, kind: Kind) {
        let hit = self.hit.take();
        match (kind, hit) {
            (Kind::KillServer | Kind::LosePrimary, Some(hit)) => self.cluster.servers[hit].restart_empty().await,
            (Kind::StopPrimary, Some(hit)) => self.cluster.servers[hit].cont(),
            (Kind::CutOffPrimary, _) => self.bus.heal(),
            (Kind::StopServer, _) => self.cluster.servers.iter().for_each(RedisServer::cont),
            _ => {}
        }
    }

    pub(super) async fn allow_publish(&self, service: usize, allowed: bool) -> Result<(), String> {
        for server in &self.cluster.servers {
            of_server::allow_publish(server, service, allowed).await?;
        }
        Ok(())
    }

    /// Whether the record of each shard is for the memory that its primary has now, and every primary has its replica again.
    pub(super) async fn votes(&self) -> bool {
        sleep(LOOK).await;
        let asked = async {
            let mut records = 0;
            for server in &self.cluster.servers {
                let info = server.try_query::<String>("INFO").await?;
                let is_primary = info.contains("role:master");
                let is_in_sync = if is_primary { "connected_slaves:1" } else { "master_link_status:up" };
                if !info.contains(is_in_sync) {
                    return Ok(false);
                }
                for record in keys(server).await?.iter().filter(|key| is_primary && key.ends_with("}{node}")) {
                    records += u32::from(is_own_record(server, record, &info).await?);
                }
            }
            RedisResult::Ok(records == SHARDS)
        };
        matches!(timeout(REPLY_TIMEOUT, asked).await, Ok(Ok(true)))
    }

    pub(super) async fn lock_keys(&self) -> Vec<String> {
        let mut locks = Vec::new();
        for primary in self.primaries().await {
            let keys = keys(&self.cluster.servers[primary]).await.unwrap();
            let is_lock = |key: &String| key.split_once('}').is_some_and(|(_, name)| !name.starts_with('{'));
            locks.extend(keys.into_iter().filter(is_lock));
        }
        locks
    }

    /// The slot of the shard whose turn it is, and the server that has it.
    async fn next_shard(&mut self) -> Result<(u16, usize), String> {
        let mut records = Vec::new();
        for primary in self.primaries().await {
            let keys = keys(&self.cluster.servers[primary]).await.map_err(|error| error.to_string())?;
            records.extend(keys.into_iter().filter(|key| key.ends_with("}{node}")).map(|key| (key, primary)));
        }
        records.sort();
        self.faults += 1;
        let (record, primary) = records.get(self.faults % records.len().max(1)).ok_or("no shard has a record")?;
        Ok((self.cluster.slot(record).await, *primary))
    }

    /// The servers that are primaries now.
    async fn primaries(&self) -> Vec<usize> {
        let mut primaries = Vec::new();
        for (place, server) in self.cluster.servers.iter().enumerate() {
            let replication = server.try_query::<String>("INFO replication").await.unwrap_or_default();
            primaries.extend(replication.contains("role:master").then_some(place));
        }
        primaries
    }

    async fn replica_of(&self, primary: usize) -> Option<usize> {
        let replication: String = self.cluster.servers[primary].query("INFO replication").await;
        self.cluster.servers.iter().position(|server| replication.contains(&format!(",port={},", server.port())))
    }
}

/// All keys of shards on a server.
async fn keys(server: &RedisServer) -> RedisResult<Vec<String>> {
    server.try_query(&format!("KEYS {{{PREFIX}#*")).await
}
