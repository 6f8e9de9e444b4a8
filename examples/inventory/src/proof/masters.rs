use std::time::Duration;

use lock_axum::{LockManager, MemoryNode, NodeHealth};

use super::RunError;

/// The number of in-memory masters. Five, as in the usual Redlock deployment: two may fail.
const IN_MEMORY: usize = 5;

/// The longest TTL on in-memory masters. One that lost its data grants nothing for about as long.
const MAX_TTL: Duration = Duration::from_secs(10);

/// The default timeout grows with the TTL and is 15 ms for the shortest TTL here. Buyers, instances
/// and masters may share two cores, where a reply can be later than that although nothing is wrong.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Where the locks are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LockStore {
    /// Five masters in the memory of this process, and private to it.
    #[default]
    InMemory,
    /// Redis masters, by their URLs.
    Redis(Vec<String>),
    /// PostgreSQL masters, by their URLs. One is enough for a set.
    Postgres(Vec<String>),
    /// A ZooKeeper ensemble, by its address.
    ZooKeeper(String),
}

/// The lock masters that all instances share.
#[derive(Clone)]
pub(crate) enum Masters {
    InMemory(Vec<MemoryNode>),
    Redis(Vec<String>),
    Postgres(Vec<String>),
    ZooKeeper(String),
}

impl Masters {
    /// The masters of a store. In memory, these are new ones.
    pub(crate) fn new(store: &LockStore) -> Self {
        match store {
            LockStore::InMemory => Self::InMemory((0..IN_MEMORY).map(|_| MemoryNode::new()).collect()),
            LockStore::Redis(urls) => Self::Redis(urls.clone()),
            LockStore::Postgres(urls) => Self::Postgres(urls.clone()),
            LockStore::ZooKeeper(address) => Self::ZooKeeper(address.clone()),
        }
    }

    /// How many masters of which kind, for the report.
    pub(crate) fn describe(&self) -> String {
        let (count, kind) = match self {
            Self::InMemory(nodes) => (nodes.len(), "in-memory"),
            Self::Redis(urls) => (urls.len(), "Redis"),
            Self::Postgres(urls) => (urls.len(), "PostgreSQL"),
            Self::ZooKeeper(_) => return "a ZooKeeper ensemble".to_owned(),
        };
        format!("{count} {kind} {}", if count == 1 { "master" } else { "masters" })
    }

    /// Connects a new lock manager to the shared masters.
    ///
    /// Masters compare some settings of their clients: the number of masters, the longest TTL and
    /// the set name. These are the same for every mode and for the service.
    pub(crate) async fn connect(&self, prefix: &str) -> Result<LockManager, RunError> {
        let builder = LockManager::builder().prefix(prefix);
        let builder = match self {
            Self::InMemory(nodes) => builder.nodes(nodes.iter().cloned()).node_timeout(NODE_TIMEOUT).max_ttl(MAX_TTL),
            Self::Redis(urls) => builder.redis(urls).node_timeout(NODE_TIMEOUT),
            // The default of these is as long, or longer.
            #[cfg(feature = "postgres")]
            Self::Postgres(urls) => builder.postgres(urls),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(address) => builder.zookeeper(address),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => return Err(RunError::without("a PostgreSQL server", "postgres")),
            #[cfg(not(feature = "zookeeper"))]
            Self::ZooKeeper(address) => {
                return Err(RunError::without(&format!("the ZooKeeper ensemble {address}"), "zookeeper"));
            }
        };
        builder.connect().await.map_err(RunError::Connect)
    }

    /// Checks that enough masters grant locks.
    ///
    /// A master that lost its data grants nothing during its quarantine. A run in that time would
    /// measure nothing but busy locks.
    ///
    /// # Errors
    ///
    /// [`RunError::NoQuorum`] with the problem of each master if too few grant locks, and
    /// [`RunError::Connect`] if too few are reachable.
    pub(crate) async fn check(&self, prefix: &str) -> Result<(), RunError> {
        let locks = self.connect(prefix).await?;
        let health = locks.health().await;
        locks.shutdown(Duration::ZERO).await;
        if health.quorum {
            return Ok(());
        }
        let problem = |node: NodeHealth| node.problem.map(|problem| format!("{}: {}", node.name, problem));
        let problems: Vec<_> = health.nodes.into_iter().filter_map(problem).collect();
        Err(RunError::NoQuorum(problems.join("; ")))
    }
}
