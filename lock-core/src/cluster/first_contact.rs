//! First contact: what is asked of a manager that has just begun waits for its connections, for a second at most.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::{Cluster, Member, MemberState};
use crate::node::NodeFuture;

/// How long callers wait for the first connections to be made.
pub(super) const FIRST_CONTACT: Duration = Duration::from_secs(1);

impl Cluster {
    /// Waits until a majority votes, or every first connection was made or failed, or a second has passed.
    pub(crate) async fn first_contact(&self) {
        // The common case, without a future: every acquisition passes here.
        if self.has_contact.load(Ordering::Acquire) || self.has_quorum() {
            return;
        }
        let mut joining: FuturesUnordered<_> = self.members.iter().map(|member| self.joined(member)).collect();
        // Not for the last node: a minority that is down must not delay the first lock of a process.
        while joining.next().await.is_some() && !self.has_quorum() {}
    }

    /// Waits until every first connection was made or failed, or a second has passed.
    pub(crate) async fn all_joined(&self) {
        futures_util::future::join_all(self.members.iter().map(|member| self.joined(member))).await;
    }

    /// Waits until a node's first connection was made or failed.
    async fn joined(&self, member: &Member) {
        // Counted from the beginning and not from this call: a node that is down would cost every caller a second.
        let deadline = self.first_contact_ends();
        let joined = member.state.wait_for(|state| *state != MemberState::Joining);
        _ = timeout_at(deadline, joined).await;
    }

    /// If the first connection to a node is being made: the future of its success or failure.
    pub(crate) fn joining(self: &Arc<Self>, node: usize) -> Option<NodeFuture<()>> {
        if self.has_contact.load(Ordering::Acquire) || *self.members[node].state.borrow() != MemberState::Joining {
            return None;
        }
        let cluster = Arc::clone(self);
        Some(Box::pin(async move { cluster.joined(&cluster.members[node]).await }))
    }

    /// How long replies to requests that are submitted now are awaited.
    pub(crate) fn deadline(&self, now: Instant, node_timeout: Duration) -> Instant {
        if !self.has_contact.load(Ordering::Acquire) && self.is_any_joining() {
            now.max(self.first_contact_ends()) + node_timeout
        } else {
            now + node_timeout
        }
    }

    /// Whether the first connection to a node is being made.
    pub(crate) fn is_any_joining(&self) -> bool {
        self.members.iter().any(|member| *member.state.borrow() == MemberState::Joining)
    }

    /// How long first connections are awaited.
    fn first_contact_ends(&self) -> Instant {
        self.began.lock().unwrap_or_else(Instant::now) + FIRST_CONTACT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockError, LockManager, MemoryNode};

    const HUNG: Duration = Duration::from_secs(3600);

    /// The three nodes of a set, of which one hangs when a manager first connects.
    async fn one_hangs() -> (Vec<MemoryNode>, LockManager) {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[0].set_delay(HUNG);
        let locks = LockManager::builder().nodes(nodes.clone()).connect_lazy().unwrap();
        (nodes, locks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_hangs_from_the_beginning_costs_the_first_caller_no_second() {
        let (_nodes, locks) = one_hangs().await;
        let asked = Instant::now();
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_released_on_a_node_that_was_not_asked() {
        let (_nodes, locks) = one_hangs().await;
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        let asked = Instant::now();
        locks.shutdown(Duration::ZERO).await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_of_first_contact_is_not_granted_twice() {
        let (nodes, locks) = one_hangs().await;
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(FIRST_CONTACT).await;
        nodes[1..].iter().for_each(|node| node.set_delay(HUNG));
        let asked = Instant::now();
        assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })));
        assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
    }
}
