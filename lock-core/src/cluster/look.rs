//! Looking at locks on the nodes, and evicting their holders.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::{Cluster, Member};
use crate::error::NodeError;
use crate::node::{Evict, Eviction, LockKeys, LockState, Look};
use crate::quorum::{RollCall, majority};
use crate::random::Epoch;

/// How long the nodes may take to reply.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The epoch of each node that votes by one roster, or what keeps it from that. A majority may be counted of what these nodes reply.
pub(crate) type Epochs = Vec<Result<Epoch, NodeError>>;

impl Member {
    /// What the node has of a lock. With an epoch, it replies only if it is still in it.
    pub(crate) async fn look(&self, keys: &LockKeys, epoch: Option<Epoch>) -> Result<LockState, NodeError> {
        let states = self.node.look(Look { keys: vec![keys.clone()], epoch }).await?;
        let none = || NodeError::Protocol { reply: "no state of the lock".into() };
        states.into_iter().next().ok_or_else(none)?.check()
    }
}

impl Cluster {
    pub(crate) fn epochs(&self) -> Epochs {
        self.epochs_by(&mut RollCall::default())
    }

    /// The same, and notes by which roster the nodes vote.
    pub(crate) fn epochs_by(&self, roll: &mut RollCall) -> Epochs {
        (0..self.size()).map(|node| self.epoch_for(node, roll)).collect()
    }

    /// What the nodes have of a lock. Nodes with an epoch reply only if they are still in it; the others say what they have all the
    /// same, if `all`, and are not asked otherwise. When a majority has replied, the `rest` have this long.
    pub(crate) async fn look(
        &self,
        epochs: &Epochs,
        keys: &LockKeys,
        all: bool,
        rest: Duration,
    ) -> Vec<Result<LockState, NodeError>> {
        let replies = epochs.iter().zip(&self.members).map(|(epoch, member)| async move {
            match epoch {
                Ok(epoch) => member.look(keys, Some(*epoch)).await,
                Err(_) if all => member.look(keys, None).await,
                Err(error) => Err(error.clone()),
            }
        });
        self.gather(replies, rest).await
    }

    /// Evicts holders from a lock on every node that votes. When a majority has replied, the `rest` have this long.
    pub(crate) async fn evict(
        &self,
        epochs: &Epochs,
        evict: impl Fn(Epoch) -> Evict,
        rest: Duration,
    ) -> Vec<Result<Eviction, NodeError>> {
        let replies = epochs.iter().zip(&self.members).map(|(epoch, member)| {
            let evicted = epoch.clone().map(|epoch| member.node.evict(evict(epoch)));
            async { evicted?.await }
        });
        self.gather(replies, rest).await
    }

    /// The replies of the nodes, in their order.
    async fn gather<T>(
        &self,
        replies: impl Iterator<Item = impl Future<Output = Result<T, NodeError>>>,
        rest: Duration,
    ) -> Vec<Result<T, NodeError>> {
        let mut gathered: Vec<_> = (0..self.size()).map(|_| Err(NodeError::TimedOut)).collect();
        let mut pending: FuturesUnordered<_> =
            replies.enumerate().map(|(node, reply)| async move { (node, reply.await) }).collect();
        let (mut deadline, mut replied) = (Instant::now() + LOOK_TIMEOUT, 0);
        while let Ok(Some((node, reply))) = timeout_at(deadline, pending.next()).await {
            match &reply {
                Ok(_) => replied += 1,
                Err(error) => self.report(node, error),
            }
            // A node that hangs must not make everybody wait who looks at a lock; one that is a moment late is to be in the
            // report.
            if replied == majority(self.size()) && reply.is_ok() {
                deadline = deadline.min(Instant::now() + rest);
            }
            gathered[node] = reply;
        }
        gathered
    }
}
