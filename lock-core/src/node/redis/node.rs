use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connect::CONNECT_TIMEOUT;
use super::link::{Link, link_over};
use super::pushes::Pushes;
use super::session::{Session, Terms};
use super::source::{Connections, Master, Source};
use super::warnings::Warnings;
use crate::forward_to_node;
use crate::node::cluster_slot::slot_of;
use crate::node::credentials::Login;
use crate::node::link::PresentLink;
use crate::node::lock_node::in_memory_timeout;
use crate::node::{Credentials, Inspection, Keyspace, LockNode, NodeError, NodeFuture, Refusal, Wakeups};
use crate::random::WaiterId;

/// One Redis or Valkey server as a master, from a URL (`redis://`, `rediss://`, `unix://`) or from a factory of connections.
///
/// There is one connection. It carries all requests, and in RESP3 also what the server says without having been asked: it wakes this
/// process when it waits for locks, and says when it lost its data. The connection is given up when it is lost, when the server lost
/// its data, or when nothing moves on it for a second although replies are due. The next inspection opens a new one. The engine
/// inspects on its own, with a randomized backoff.
///
/// A server, or a proxy in front of it, that does not speak RESP3 is used in RESP2. Then callers that wait poll, and a loss of data is
/// noticed by the next inspection, half a minute later at most.
///
/// A `RedisNode` is for one [`LockManager`](crate::LockManager). Two managers that share it would lose each other's
/// admission and wait for each other's wake-ups.
///
/// # Permissions
///
/// With ACLs, the user needs the keys and the channels under the prefix (`~lock:* resetchannels &lock:*`), and:
/// `+select +info +time +script|load +evalsha +eval +get +mget +set +del +pttl +pexpire +hmget +hgetall +hset +hdel +zadd +zrem
/// +zrange +zrank +zscore +zcard +publish +subscribe +client|tracking` (`+select` only for a database other than 0).
///
/// These are optional:
///
/// - `+role` is needed for [`from_sentinel`](Self::from_sentinel).
/// - `+wait` is needed for [`replicated`](Self::replicated).
/// - `+config|get` is needed for [`assume_durable`](crate::LockManagerBuilder::assume_durable).
/// - Without the commands that begin with `z`, locks work, but there are no queues between processes, and no locks to read.
/// - Without `+subscribe` or the channels, waiters are not woken: they poll, which costs more and takes longer.
/// - Without `+publish` or the channels, nobody is woken when this process releases a lock: the others poll. The log has
///   `lock.node_calls_nobody`.
/// - Without `+client|tracking`, the server does not say when it loses its data while it runs: because it became a replica of another
///   server and then a master again, say. Until the next inspection, half a minute later at most, its votes count as before.
///
/// # Examples
///
/// ```
/// use lock_core::{LockManager, RedisNode};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = [
///     RedisNode::from_url("redis://app:secret@10.0.0.1:6379")?,
///     RedisNode::from_url("redis://app:secret@10.0.0.2:6379")?,
///     RedisNode::from_url("unix:///run/redis/redis.sock")?,
/// ];
/// let locks = LockManager::builder().nodes(nodes).connect_lazy()?;
/// # Ok(())
/// # }
/// ```
pub struct RedisNode(pub(super) Shared);

/// What a node shares with the inspections that it began.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) login: Login,
    pub(super) terms: Terms,
    /// Shared with those for other shards, unless votes wait for replicas.
    connections: Arc<Connections>,
    link: Arc<PresentLink<Session>>,
}

impl RedisNode {
    pub(super) fn new(name: String, source: Source) -> Self {
        Self(Shared {
            terms: Terms {
                replication: None,
                tolerates_eviction: false,
                warnings: Arc::new(Warnings::new(name.clone())),
            },
            name,
            source,
            login: Login::default(),
            connections: Arc::default(),
            link: Arc::default(),
        })
    }

    /// Whether its keys are those of a slot: [`Keyspace::in_cluster`].
    pub(crate) fn is_in_cluster(&self) -> bool {
        matches!(self.0.source, Source::Cluster(_))
    }
}

impl Shared {
    /// The present link if its connection is not lost, otherwise a new one: over the connection of another shard that leads to the same
    /// server, if there is one.
    async fn open(&self, keyspace: &Keyspace) -> Result<Link, NodeError> {
        let opening = async {
            let session = match &self.source {
                Source::Master(master) => {
                    let opening = async { self.connect(master, self.login.ask().await?).await };
                    self.connections.get_or_open("", opening).await
                }
                // To ask for the owner takes a login, which the owner gets, too.
                Source::Cluster(seeds) => {
                    let credentials = self.login.ask().await?;
                    let owner = seeds.owner(slot_of(keyspace.record()), credentials.as_ref()).await;
                    let owner = owner.map_err(|error| self.login.error(error))?;
                    let (address, owner) = (owner.name.clone(), Master::Server(Box::new(owner)));
                    self.connections.get_or_open(&address, self.connect(&owner, credentials)).await
                }
            };
            session.map(link_over)
        };
        self.link.get_or_open(opening).await
    }

    async fn connect(&self, master: &Master, credentials: Option<Credentials>) -> Result<Arc<Session>, NodeError> {
        let (pushes, config) = Pushes::new(CancellationToken::new());
        let connected = timeout(CONNECT_TIMEOUT, master.connect(credentials.as_ref(), config)).await;
        let no_answer = || NodeError::Unreachable { reason: "no answer while connecting".into() };
        let connected = connected.unwrap_or_else(|_| Err(no_answer())).map_err(|error| self.login.error(error))?;
        Session::open(connected, pushes, &self.terms).await
    }
}

impl LockNode for RedisNode {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (node, keyspace) = (self.0.clone(), Arc::clone(keyspace));
        Box::pin(async move {
            let link = node.open(&keyspace).await?;
            let inspection = link.inspect(&keyspace).await;
            if !node.source.is_elected() {
                return inspection;
            }
            // Another server may have taken its place: the next inspection asks where it is.
            match &inspection {
                // About keys of this shard, or what the user may do with them: the connection may serve the others. It is as good as before
                // for the shards that are still there, unless one of their processes waits for a wake-up in the slot that moved: its server
                // ends the subscription unasked, and with that this connection.
                Err(
                    NodeError::Refused(Refusal::Permission { .. } | Refusal::ClusterMode { .. })
                    | NodeError::Elsewhere { .. },
                ) => drop(node.link.take()),
                Err(NodeError::Refused(_)) => link.close(),
                _ => {}
            }
            inspection.map(|found| Inspection { durable: false, ..found })
        })
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let (link, keyspace) = (self.0.link.inspected(), Arc::clone(keyspace));
        Box::pin(async move { link?.session.wakeups(&keyspace, waiter).await })
    }

    forward_to_node!(self => self.0.link; write_record read_fences submit submit_all look evict disconnected disconnect);

    fn node_timeout(&self, ttl: Duration) -> Duration {
        in_memory_timeout(ttl) + self.0.terms.replication.map_or(Duration::ZERO, |replication| replication.timeout)
    }

    fn shard(&self, shard: u32) -> Option<Arc<dyn LockNode>> {
        let mut of_shard = Shared { link: Arc::default(), ..self.0.clone() };
        of_shard.name = format!("{}#{shard}", self.0.name);
        // One batch that waits for replicas is in flight at a time. Over a connection of all shards, they would wait for each other's.
        if self.0.terms.replication.is_some() {
            of_shard.connections = Arc::default();
        }
        Some(Arc::new(Self(of_shard)))
    }
}

opaque_debug!(RedisNode, |this| "name": this.0.name);
