use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::connect::{Address, NODE_TIMEOUT, reconnect};
use super::link::{Link, open};
use super::session::Session;
use super::wakeups::listen;
use crate::forward_to_node;
use crate::limits::OutOfRange;
use crate::node::link::PresentLink;
use crate::node::{Inspection, InvalidUrl, Keyspace, LockNode, NodeError, NodeFuture, Refusal, Wakeups};
use crate::random::WaiterId;

/// The default `tickTime` of ZooKeeper.
const TICK_TIME: Duration = Duration::from_secs(2);
const MIN_TICK_TIME: Duration = Duration::from_millis(100);
const MAX_TICK_TIME: Duration = Duration::from_secs(60);

/// A ZooKeeper ensemble (3.6 or newer) as the only master.
///
/// It is one node, and alone in its set: it survives what the ensemble survives, and grants nothing where that has no majority.
/// Everything is kept in znodes below the path of the address, which is created.
///
/// # Time
///
/// A lock is an ephemeral znode, and ends with the session at the latest. So the session has to be longer than the longest lock:
/// [`max_ttl`](crate::LockManagerBuilder::max_ttl) and two ticks. The servers allow 20 ticks, 40 s by default; with less than is
/// needed, [`connect`](crate::LockManagerBuilder::connect) fails and says so. The locks of a process that dies are free when its session
/// ends, not when their `ttl` is over. While the process lives, it ends each itself, at its `ttl` or a
/// quarter of a tick later.
///
/// When the session ends, because the process was stopped for too long, all its locks end with it.
///
/// # What is different
///
/// - Readers of one process share a lock. Readers of several processes exclude each other, as writers do.
/// - Waiters are served in turn; one that is stopped costs those behind it 0.1 s for each lock.
/// - [`delegations`](crate::delegation::Delegate) are not adopted: nobody but the holder's session knows how long the lock lives.
///
/// A `ZooKeeperNode` is for one [`LockManager`](crate::LockManager).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_core::{LockManager, ZooKeeperNode};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = ZooKeeperNode::from_address("zk-1:2181,zk-2:2181,zk-3:2181/locks")?.tick_time(Duration::from_secs(3));
/// let locks = LockManager::builder().nodes([node]).max_ttl(Duration::from_secs(20)).connect_lazy()?;
/// # Ok(())
/// # }
/// ```
pub struct ZooKeeperNode(Shared);

/// What a node shares with the inspections that it began.
#[derive(Clone)]
struct Shared {
    address: Address,
    tick_time: Duration,
    max_ttl: OnceLock<Duration>,
    link: Arc<PresentLink<Session>>,
}

impl ZooKeeperNode {
    /// Creates a node for an ensemble: `[user:password@]host[:port][,host[:port]…][/path]`. The port is 2181, and the path `/locks`,
    /// unless they are named. Does not connect: the first inspection does.
    ///
    /// With a login, the session authenticates with the `digest` scheme, and all znodes are created for this user alone.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{LockNode as _, ZooKeeperNode};
    ///
    /// let node = ZooKeeperNode::from_address("app:secret@zk-1,zk-2:2182/locks")?;
    /// assert_eq!(node.name(), "zk-1:2181,zk-2:2182/locks");
    /// # Ok::<(), lock_core::masters::InvalidUrl>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] if the address does not parse.
    pub fn from_address(address: &str) -> Result<Self, InvalidUrl> {
        let address = Address::parse(address)?;
        Ok(Self(Shared { address, tick_time: TICK_TIME, max_ttl: OnceLock::new(), link: Arc::default() }))
    }

    /// Sets the `tickTime` of the servers, or a longer one. With a shorter one, a server that dies right after it passed a request on
    /// may take a lock with it before its time.
    ///
    /// Defaults to 2 s, which is the default of the servers. From 100 ms to 60 s: with another one, [`connect`](crate::LockManagerBuilder::connect)
    /// fails and says so.
    #[must_use]
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.0.tick_time = tick_time;
        self
    }
}

impl Shared {
    /// The present session if it is not over, otherwise a new one.
    async fn open(&self, max_ttl: Duration) -> Result<Link, NodeError> {
        if let Err(out_of_range) = OutOfRange::check("tick_time", self.tick_time, MIN_TICK_TIME, MAX_TICK_TIME) {
            return Err(Refusal::Unusable { reason: out_of_range.to_string() }.into());
        }
        if let Ok(link) = self.link.inspected() {
            reconnect(&link.session, &link.gone).await?;
            if !link.gone.is_cancelled() {
                return Ok(link);
            }
        }
        self.link.get_or_open(open(&self.address, max_ttl, self.tick_time)).await
    }
}

impl LockNode for ZooKeeperNode {
    fn name(&self) -> &str {
        &self.0.address.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        // Without a manager, for a test of the node alone, as long as a lock of the default length needs.
        let max_ttl = *self.0.max_ttl.get_or_init(|| Duration::from_secs(10));
        let (shared, keyspace) = (self.0.clone(), Arc::clone(keyspace));
        Box::pin(async move { shared.open(max_ttl).await?.inspect(&keyspace).await })
    }

    fn wakeups(&self, _: &Arc<Keyspace>, _: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let link = self.0.link.inspected();
        Box::pin(async move { link.map(|link| listen(&link.session, link.gone.clone())) })
    }

    fn node_timeout(&self, _: Duration) -> Duration {
        NODE_TIMEOUT
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn set_max_ttl(&self, max_ttl: Duration) {
        // A node is for one manager, so it is set once.
        _ = self.0.max_ttl.set(max_ttl);
    }

    forward_to_node!(self => self.0.link; write_record read_fences submit submit_all look evict disconnected disconnect);
}

/// Nobody uses the node any more: its session is closed when all its locks are over.
impl Drop for ZooKeeperNode {
    fn drop(&mut self) {
        self.disconnect();
    }
}

opaque_debug!(ZooKeeperNode, |this| "name": this.0.address.name);
