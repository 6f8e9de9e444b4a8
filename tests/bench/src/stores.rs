//! Where the locks live: the same engine on Redis, PostgreSQL and ZooKeeper, each beside what its users would take instead.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockManager, LockManagerBuilder, PostgresNode};
use lock_support::{PostgresServer, RedisCluster, ZooKeeperServer};
use tokio::time::sleep;

use super::advisory::AdvisoryLocks;
use super::contender::{Contender, Locks, TTL};
use super::load::{Load, LoadResult, Release, Resources};
use super::recipe::Recipe;
use super::row::{Row, Unit};
use super::uncontended::cycle;
use super::{BoxError, MASTERS, Plan, child, fresh};

const PART: &str = "stores";
const TASKS: usize = 64;
const WAIT: Duration = Duration::from_secs(60);
/// A pause between two contenders, so that the last releases of one do not burden the other.
const SETTLE: Duration = Duration::from_millis(30);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = redis(plan, MASTERS).await?;
    rows.extend(redis(plan, 1).await?);
    rows.extend(postgres(plan, 3, true).await?);
    rows.extend(postgres(plan, 1, true).await?);
    rows.extend(postgres(plan, 1, false).await?);
    rows.extend(zookeeper(plan).await?);
    Ok(rows)
}

async fn redis(plan: &Plan, masters: usize) -> Result<Vec<Row>, BoxError> {
    let cluster = RedisCluster::start(masters).await;
    let urls = child::urls(&cluster);
    let ours = Contender::Ours.connect(&urls).await?;
    Pair { store: format!("Redis × {masters}"), ours, peer: Peer::Rslock(urls) }.rows(plan).await
}

/// With `synchronous_commit` on or off: the setting of the nodes, not of the servers. The peer has the first server.
async fn postgres(plan: &Plan, servers: usize, synchronous: bool) -> Result<Vec<Row>, BoxError> {
    // Room for a pool whose sessions are about to end, and the next one.
    let start = || PostgresServer::start_with(&["-c", "fsync=on", "-c", "max_connections=300"]);
    let servers = join_all((0..servers).map(|_| start())).await;
    let nodes = servers.iter().map(|server| PostgresNode::from_url(&server.url()));
    let nodes = nodes.map(|node| Ok(node?.synchronous_commit(synchronous))).collect::<Result<Vec<_>, BoxError>>()?;
    let ours = connect(LockManager::builder().nodes(nodes)).await?;
    let commit = if synchronous { "on" } else { "off" };
    let store = format!("PostgreSQL × {}, synchronous_commit {commit}", servers.len());
    Pair { store, ours, peer: Peer::AdvisoryLocks(servers[0].url()) }.rows(plan).await
}

async fn zookeeper(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let server = ZooKeeperServer::start().await;
    let ours = connect(LockManager::builder().zookeeper(server.address()).max_ttl(TTL)).await?;
    Pair { store: "ZooKeeper".into(), ours, peer: Peer::Recipe(server.address()) }.rows(plan).await
}

async fn connect(builder: LockManagerBuilder) -> Result<Locks, BoxError> {
    Ok(Locks::Ours(builder.ttl(TTL).wait(WAIT).max_waiters(100_000).connect().await?))
}

/// What users of a store would take instead, and where.
enum Peer {
    Rslock(Vec<String>),
    AdvisoryLocks(String),
    Recipe(String),
}

impl Peer {
    fn name(&self) -> &'static str {
        match self {
            Self::Rslock(_) => Contender::Rslock50ms.name(),
            Self::AdvisoryLocks(_) => "pg_advisory_lock",
            Self::Recipe(_) => "the recipe of sequential znodes",
        }
    }

    async fn connect(&self) -> Result<Locks, BoxError> {
        Ok(match self {
            Self::Rslock(urls) => Contender::Rslock50ms.connect(urls).await?,
            Self::AdvisoryLocks(url) => Locks::Advisory(AdvisoryLocks::connect(url).await?),
            Self::Recipe(address) => Locks::Recipe(Recipe::connect(address).await?),
        })
    }
}

/// The engine on a store, and its peer there.
struct Pair {
    store: String,
    ours: Locks,
    peer: Peer,
}

impl Pair {
    async fn rows(&self, plan: &Plan) -> Result<Vec<Row>, BoxError> {
        let (rounds, cycles) = plan.pick((9, 50), (3, 20));
        let (peer, mut alone, mut peer_alone) = (self.peer.connect().await?, Vec::new(), Vec::new());
        // The first round warms up.
        for round in 0..=rounds {
            let ((_, by_ours), (_, by_peer)) = (cycle(&self.ours, cycles).await?, cycle(&peer, cycles).await?);
            if round > 0 {
                alone.push(by_ours);
                peer_alone.push(by_peer);
            }
        }
        drop(peer);
        let figure = format!("{}: lock + unlock alone, p50", self.store);
        Ok(vec![
            Row::new(PART, figure, Unit::Seconds, &alone).against(self.peer.name(), &alone, &peer_alone),
            self.loads(plan, "64 tasks with a key for each", Resources::Distinct).await?,
            self.loads(plan, "one key of 64 tasks", Resources::One).await?,
        ])
    }

    /// Cycles a second.
    async fn loads(&self, plan: &Plan, what: &str, resources: fn(String) -> Resources) -> Result<Row, BoxError> {
        let (rounds, length) = plan.pick((5, Duration::from_millis(500)), (2, Duration::from_millis(200)));
        let (mut ours, mut peers, mut failures) = (Vec::new(), Vec::new(), [0, 0]);
        for round in 0..=rounds {
            // The acquisitions that the end of a load cuts short take sessions of these peers with them.
            let peer = self.peer.connect().await?;
            let (by_ours, by_peer) = (run(&self.ours, length, resources).await?, run(&peer, length, resources).await?);
            if round > 0 {
                ours.push(by_ours.per_second());
                peers.push(by_peer.per_second());
            }
            failures[0] += by_ours.failures;
            failures[1] += by_peer.failures;
        }
        let row = Row::new(PART, format!("{}: {what}: cycles", self.store), Unit::PerSecond, &ours);
        let row = row.against(self.peer.name(), &ours, &peers);
        Ok(row.failures("ours", failures[0]).failures(self.peer.name(), failures[1]))
    }
}

async fn run(locks: &Locks, length: Duration, resources: fn(String) -> Resources) -> Result<LoadResult, BoxError> {
    let resources = resources(fresh("stores"));
    let load = Load { tasks: TASKS, length, resources, release: Release::Awaited, inside: Duration::ZERO };
    let done = load.run(locks).await?;
    sleep(SETTLE).await;
    Ok(done)
}
