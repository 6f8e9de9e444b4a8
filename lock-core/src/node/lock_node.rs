use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeError, NodeFuture, NodeRecord,
    RecordWrite, ReplySender, Request, Wakeups,
};
use crate::random::WaiterId;

/// How long a store in memory is given to reply, about a lock of this time to live.
pub(super) fn in_memory_timeout(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(5), Duration::from_millis(50))
}

/// One independent master: it carries out operations on locks and knows nothing of the other masters.
///
/// # The order of requests
///
/// [`submit`](Self::submit) takes a request **when it is called**. Requests are executed in the order in which they
/// were submitted, and a request may be executed although nobody waits for its reply any more. The engine relies on that
/// order: a release that is submitted after its acquire can never overtake it. Where the order cannot be kept, as across a
/// broken connection, the lock's time to live is the bound.
///
/// # Time
///
/// A node need not limit how long a reply takes; the engine does. `submit` must not block.
///
/// # Writing a node
///
/// [`node::writing`](super::writing) says what a node has to keep to, and has a whole one.
///
/// # Examples
///
/// A node that wraps another one and counts its requests:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use lock_core::node::{
///     Evict, Eviction, FenceReading, Inspection, Keyspace, LockState, Look, NodeFuture, NodeRecord, RecordWrite, ReplySender,
///     Request, WaiterId, Wakeups,
/// };
/// use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
///
/// struct Counting<N> {
///     node: N,
///     requests: Arc<AtomicU64>,
/// }
///
/// impl<N: LockNode> LockNode for Counting<N> {
///     fn name(&self) -> &str {
///         self.node.name()
///     }
///
///     fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
///         self.node.inspect(keyspace)
///     }
///
///     fn write_record(
///         &self,
///         keyspace: &Arc<Keyspace>,
///         write: RecordWrite,
///     ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
///         self.node.write_record(keyspace, write)
///     }
///
///     fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
///         self.node.read_fences(keyspace)
///     }
///
///     fn submit(&self, request: Request, reply_to: ReplySender) {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.node.submit(request, reply_to);
///     }
///
///     fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>> {
///         self.node.look(look)
///     }
///
///     fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
///         self.node.evict(evict)
///     }
///
///     // These have defaults, which a wrapper has to replace.
///     fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
///         self.node.wakeups(keyspace, waiter)
///     }
///
///     fn disconnected(&self) -> NodeFuture<()> {
///         self.node.disconnected()
///     }
///
///     fn last_words(&self) -> Option<String> {
///         self.node.last_words()
///     }
///
///     fn disconnect(&self) {
///         self.node.disconnect();
///     }
///
///     fn node_timeout(&self, ttl: Duration) -> Duration {
///         self.node.node_timeout(ttl)
///     }
///
///     fn is_alone(&self) -> bool {
///         self.node.is_alone()
///     }
///
///     fn set_max_ttl(&self, max_ttl: Duration) {
///         self.node.set_max_ttl(max_ttl);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let requests = Arc::new(AtomicU64::new(0));
/// let node = Counting { node: MemoryNode::new(), requests: Arc::clone(&requests) };
/// let locks = LockManager::builder().nodes([node]).connect().await?;
/// let before = requests.load(Ordering::Relaxed);
///
/// let guard = locks.lock("stock:42").acquire().await?;
/// guard.release().await?;
/// assert_eq!(requests.load(Ordering::Relaxed) - before, 2); // an acquire and a release
/// # Ok(())
/// # }
/// ```
pub trait LockNode: Send + Sync + 'static {
    /// The name of this node in errors, logs and health: an address, never a password.
    fn name(&self) -> &str;

    /// Inspects the node. Connects first if there is no connection.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from replying; [`NodeError::Refused`] if it must not be used.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point. The engine inspects again later.
    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>>;

    /// Writes the node's record in one step, unless the present record is not the expected one, or the server is in another run
    /// than the new record says. Returns the record that was written, or `None` if it was not (see [`RecordWrite`]).
    ///
    /// The node counts the version, completes a new id with its own time, adds the quarantines that begin, and raises its fences
    /// to the floor. A write that is cut short must not leave a record that has an epoch, or whose fences are below the floor.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from replying. The record may have been written nevertheless.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point. The record may be written nevertheless; the next inspection finds out.
    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>>;

    /// Reads the highest fence, and the id of the memory that it is in, in one step. `None` if there is no record, or none of this
    /// run of the server.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from replying.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point.
    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>>;

    /// Submits a request and returns at once; `reply_to` gets the reply when there is one. A request that could not be
    /// carried out is answered with the reason, and [`NodeError::may_have_executed`] says whether it may have had an effect
    /// nevertheless.
    fn submit(&self, request: Request, reply_to: ReplySender);

    /// Reads what the node has of some locks, in one step that changes nothing. The states are in the order of the keys.
    ///
    /// # Errors
    ///
    /// [`NodeError::Unadmitted`] if the node is not in the epoch that was asked for; otherwise whatever kept it from replying.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point.
    fn look(&self, look: Look) -> NodeFuture<Result<Vec<LockState>, NodeError>>;

    /// Evicts holders from a lock, in one step: see [`Evict`]. What is sent has no order with what is submitted.
    ///
    /// # Errors
    ///
    /// [`NodeError::Unadmitted`] if the node is in another epoch; otherwise whatever kept it from replying.
    /// [`NodeError::may_have_executed`] says whether the holders may have been evicted nevertheless.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point. The holders may be evicted nevertheless.
    fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>>;

    /// Listens for wake-ups: resolves when the node can wake `waiter` from now on. A wake-up is a hint: a timer covers for one
    /// that is late or lost. The default implementation never resolves.
    ///
    /// # Errors
    ///
    /// Why the node cannot wake the waiter.
    ///
    /// # Cancel safety
    ///
    /// The future, and the stream that it resolves to, may be dropped at any point. The node may take the waiter for one that it can wake
    /// until it is [disconnected](Self::disconnect).
    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        _ = (keyspace, waiter);
        Box::pin(pending())
    }

    /// Resolves when the connection that the last inspection used is known to be lost. The default implementation never
    /// resolves.
    fn disconnected(&self) -> NodeFuture<()> {
        Box::pin(pending())
    }

    /// Why the server executes nothing, if that is what it said last: in an error that it replied with, perhaps too late for the caller,
    /// or when it ended the connection. Errors and logs name it for a reply that is missing; nothing is decided by it. The default
    /// implementation knows of none.
    fn last_words(&self) -> Option<String> {
        None
    }

    /// Gives up the connection, as if it were lost: the runtime that moves its bytes does not run any more. What was not written
    /// by now must not be written later, even if that runtime runs again. The next inspection opens a new connection, on the
    /// runtime that polls it. The default implementation does nothing, which is right for a node without a connection.
    fn disconnect(&self) {}

    /// The same server for one of several [shards](crate::LockManagerBuilder::shards): a node with a keyspace of its own, under a name that
    /// says which shard it is, such as `10.0.0.1:6379#3`. The default implementation returns `None`, for a store that cannot be divided.
    fn shard(&self, shard: u32) -> Option<Arc<dyn LockNode>> {
        _ = shard;
        None
    }

    /// How long the node is given to reply to a request about a lock of this time to live, if the builder of the manager does not say
    /// ([`node_timeout`](crate::LockManagerBuilder::node_timeout)). Of several nodes in one set, the longest applies to all.
    ///
    /// The default implementation returns a twentieth of the `ttl`, but at least 5 ms and at most 50 ms: what a store in memory
    /// needs, in the same data center. One that syncs each write to a disk needs up to 2 s.
    fn node_timeout(&self, ttl: Duration) -> Duration {
        in_memory_timeout(ttl)
    }

    /// Whether the node has to be the only one of its set, because it keeps rules of its own. A manager with others beside it is
    /// [not built](crate::ConfigError::NotAlone). The default implementation says no.
    fn is_alone(&self) -> bool {
        false
    }

    /// Says how long the longest lock of the manager may live, once, before the node is inspected. For a store that has to know it in
    /// advance. The default implementation does nothing.
    fn set_max_ttl(&self, max_ttl: Duration) {
        _ = max_ttl;
    }

    /// Submits several requests of one caller, about locks of different names, in this order. A node sends them in one command if
    /// it can. The default implementation submits one after another.
    fn submit_all(&self, requests: Vec<(Request, ReplySender)>) {
        for (request, reply_to) in requests {
            self.submit(request, reply_to);
        }
    }
}
