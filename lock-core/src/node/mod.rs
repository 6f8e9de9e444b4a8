//! One master, and its vote.
//!
//! [`LockNode`] is all that the engine knows of a master. [`RedisNode`] is a Redis server, [`MemoryNode`] one in this
//! process; both answer the same requests by the same rules, which are told at [`Request`].

mod answer;
mod error;
mod inspection;
mod keyspace;
mod memory;
mod redis;
mod request;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use crate::random::WaiterId;

pub use answer::Answer;
pub(crate) use answer::Answers;
pub use error::{NodeError, Refusal};
pub use inspection::{Inspection, Meta, Role, SetConfig};
pub use keyspace::{Keyspace, LockKeys};
pub use memory::MemoryNode;
pub use redis::RedisNode;
pub use request::{Ballot, Call, Establish, Place, Reply, Request, TURN_LIFE, Turn};

/// The future of a node's answer.
pub type NodeFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One independent master: it votes on locks, and knows nothing of the other masters.
///
/// # The order of requests
///
/// [`vote`](Self::vote) hands the ballot over **when it is called**: what was handed over first is executed first, and a ballot
/// may be executed though nobody waits for its answer any more. The engine builds on that order:
/// a release that is handed over after its acquire can never be overtaken by it. Where the order can not be kept, as
/// across a broken connection, the lock's time to live is the bound.
///
/// # Time
///
/// A node need not bound the time of its answers; the engine does. It must not block.
pub trait LockNode: Send + Sync + 'static {
    /// What errors, logs and health call this node: an address, never a password.
    fn name(&self) -> &str;

    /// Looks the node over, connecting to it first where there is no connection.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from answering.
    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>>;

    /// Writes the record that says which set of masters this node belongs to, unless the record that is there is not
    /// the expected one (see [`Establish`]). True when it was written.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from answering.
    fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>>;

    /// Hands a ballot over, and returns at once; the answer is given when there is one. A ballot that got no vote is answered
    /// with why, and [`NodeError::may_have_executed`] says whether it may have had an effect all the same.
    fn vote(&self, ballot: Ballot, answer: Answer);

    /// Waits for calls to a process that waits, and takes them. A call is a hint: where it comes late, or never, a timer stands
    /// behind it. The default never resolves.
    ///
    /// # Errors
    ///
    /// Whatever kept the node from calling. The calls that came meanwhile may be lost.
    fn calls(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Call>, NodeError>> {
        _ = (keyspace, waiter);
        Box::pin(pending())
    }

    /// Resolves when the connection that the last inspection used is known to be gone. The default never resolves.
    fn disconnected(&self) -> NodeFuture<()> {
        Box::pin(pending())
    }
}

macro_rules! delegate {
    ($pointer:ident) => {
        impl<T: LockNode + ?Sized> LockNode for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }
            fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
                (**self).inspect(keyspace)
            }
            fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>> {
                (**self).establish(keyspace, record)
            }
            fn vote(&self, ballot: Ballot, answer: Answer) {
                (**self).vote(ballot, answer);
            }
            fn calls(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Call>, NodeError>> {
                (**self).calls(keyspace, waiter)
            }
            fn disconnected(&self) -> NodeFuture<()> {
                (**self).disconnected()
            }
        }
    };
}

delegate!(Arc);
delegate!(Box);
