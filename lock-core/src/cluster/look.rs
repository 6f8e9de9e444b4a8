//! Looking at locks on the nodes, and evicting their holders.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Cluster, Member};
use crate::error::{NodeError, NotMember};
use crate::node::{Evict, Eviction, LockKeys, LockState, Look};
use crate::quorum::{OUTAGE_GRACE, RollCall, majority};
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

/// By which roster a majority has to vote before a request is worth sending again that was sent by another one, if that is why a node did
/// not reply.
pub(crate) fn next_roster(error: &NodeError, asked_by: u64) -> Option<u64> {
    match error {
        // The node may have joined another roster a moment ago. Whether it did shows when this client reads its record.
        NodeError::Unadmitted => Some(asked_by + 1),
        // The new one is known, and is being installed on the nodes.
        NodeError::NotMember(NotMember::Behind) => Some(asked_by),
        _ => None,
    }
}

impl Cluster {
    /// The epochs of the nodes that vote, and the number of the roster by which they do; 0 if none votes.
    pub(crate) fn epochs(&self) -> (Epochs, u64) {
        let mut roll = RollCall::default();
        let epochs = (0..self.size()).map(|node| self.epoch_for(node, &mut roll)).collect();
        (epochs, roll.roster().unwrap_or_default())
    }

    /// What the nodes have of a lock, as [`look`](Self::look) finds it, and how they were asked. If too few voted because the members
    /// changed, or their keys moved, they are asked once more.
    pub(crate) async fn look_by_present_roster(
        &self,
        keys: &LockKeys,
        all: bool,
        rest: Duration,
    ) -> (Epochs, Vec<Result<LockState, NodeError>>) {
        let (epochs, roster) = self.epochs();
        let states = self.look(&epochs, keys, all, rest).await;
        let votes = || epochs.iter().zip(&states).map(|(epoch, state)| epoch.as_ref().and(state.as_ref()));
        let is_majority = votes().filter(Result::is_ok).count() >= majority(self.size());
        if is_majority || !self.is_overtaken(roster, votes().filter_map(Result::err)).await {
            return (epochs, states);
        }
        let (epochs, _) = self.epochs();
        let states = self.look(&epochs, keys, all, rest).await;
        (epochs, states)
    }

    /// Whether nodes did not reply because the members changed, or another server has their keys, as these errors say; and if so, waits until
    /// a majority votes by the new roster, or it is known what keeps the nodes from it. Who has asked nodes by the old one, and too few
    /// replied, may ask once more then.
    ///
    /// This manager finds out about a change by another one when a node refuses a request, or at its next inspection.
    pub(crate) async fn is_overtaken<'a>(&self, asked_by: u64, errors: impl Iterator<Item = &'a NodeError>) -> bool {
        let (mut next, mut is_elsewhere) = (None, false);
        for error in errors {
            next = next.max(next_roster(error, asked_by));
            is_elsewhere |= matches!(error, NodeError::Elsewhere { .. });
        }
        if is_elsewhere {
            _ = timeout(OUTAGE_GRACE, self.published_until(|| self.has_settled(asked_by))).await;
            // Also if no majority votes: why those that were found do not is the answer then.
            return self.all_found();
        }
        match next {
            Some(next) => timeout(OUTAGE_GRACE, self.majority_votes_by(next)).await.is_ok(),
            None => false,
        }
    }

    /// Whether every node that replied that another server has its keys was found there.
    fn all_found(&self) -> bool {
        !self.members.iter().any(|member| member.last_inspection.lock().is_elsewhere)
    }

    /// Whether they were, and a majority votes by this roster, or a newer one, or has nothing more to do for that but to wait.
    fn has_settled(&self, roster: u64) -> bool {
        let is_under_way = |member: &Member| {
            let problem = member.state.borrow().problem();
            matches!(problem, Some(NodeError::Elsewhere { .. } | NodeError::NotMember(_)))
        };
        self.all_found() && (self.has_majority_by(roster) || !self.members.iter().any(is_under_way))
    }

    /// What the nodes have of a lock. Nodes with an epoch reply only if they are still in it; the others say what they have all the
    /// same, if `all`, and are not asked otherwise. When a majority has replied, the `rest` have this long.
    async fn look(
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
