//! Nodes that break one rule: each scenario passes with the shipped node and catches the broken one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::node::{
    Keyspace, Kind, NodeFuture, NodeRecord, Operation, OwnerId, QueuePosition, RecordWrite, Reply, ReplySender, Request,
};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
use lock_history::Referee;
use lock_support::{MemoryCluster, ask, eventually_async};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(1);

/// The rule that a node breaks.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    /// None: the node keeps to the shipped rules.
    None,
    /// A release deletes the key, whatever its owner.
    ReleaseWithoutOwnerCheck,
    /// A node that lost its data votes without a quarantine.
    SkipQuarantine,
    /// A renewal restores a missing key, and replies that it was kept.
    CountReplacedAsKept,
}

/// An in-memory node with a flaw.
struct BrokenNode {
    node: MemoryNode,
    flaw: Flaw,
    /// The owner of the key, according to the replies.
    owner: Arc<Mutex<Option<OwnerId>>>,
}

impl LockNode for BrokenNode {
    lock_core::forward_to_node!(self => self.node; name inspect read_fences disconnected disconnect look evict);

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        mut write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        if self.flaw == Flaw::SkipQuarantine {
            write.begin.iter_mut().for_each(|(_, length)| *length = Duration::ZERO);
        }
        self.node.write_record(keyspace, write)
    }

    fn submit(&self, mut request: Request, reply_to: ReplySender) {
        if let (Operation::Release { .. }, Flaw::ReleaseWithoutOwnerCheck) = (request.operation, self.flaw)
            && let Some(owner) = *self.owner.lock().unwrap()
        {
            request.operation = Operation::Release { owner, position: QueuePosition::None };
        }
        if let (Operation::Extend { owner, ttl }, Flaw::CountReplacedAsKept) = (request.operation, self.flaw) {
            drop(ask(&self.node, request.clone()));
            request.operation = Operation::Replace { owner, ttl, token: 0, kind: Kind::Write };
        }
        let (owner, operation) = (Arc::clone(&self.owner), request.operation);
        let reply = ask(&self.node, request);
        tokio::spawn(async move {
            let reply = reply.await;
            if let (Operation::Acquire { owner: acquirer, .. }, Ok(Reply::Granted { .. })) = (operation, &reply) {
                *owner.lock().unwrap() = Some(acquirer);
            }
            reply_to.send(reply);
        });
    }
}

/// Two managers over nodes with the same flaw.
fn two_managers(cluster: &MemoryCluster, flaw: Flaw) -> [LockManager; 2] {
    let owners: Vec<Arc<Mutex<Option<OwnerId>>>> = cluster.nodes.iter().map(|_| Arc::default()).collect();
    [(); 2].map(|()| {
        let nodes = cluster.nodes.iter().zip(&owners);
        let nodes = nodes.map(|(node, owner)| BrokenNode { node: node.clone(), flaw, owner: Arc::clone(owner) });
        LockManager::builder().nodes(nodes).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap()
    })
}

/// A holder releases late, when its successor already has the lock; then a third caller tries. Returns the violations.
async fn a_late_release(flaw: Flaw) -> Vec<String> {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster, flaw);
    let late = ours.lock("r").renew(false).acquire().await.unwrap();
    let successor = theirs.lock("r").wait(TTL * 2).acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&successor));
    _ = late.release().await;
    if let Ok(third) = ours.lock("r").try_acquire().await {
        referee.enter(&third);
    }
    referee.violations()
}

// mutant: exclusion
#[tokio::test(start_paused = true)]
async fn a_release_without_the_owner_check_is_caught() {
    assert_eq!(a_late_release(Flaw::None).await, Vec::<String>::new());
    assert_ne!(a_late_release(Flaw::ReleaseWithoutOwnerCheck).await, Vec::<String>::new());
}

/// One of the nodes that granted a lock loses its data. Another client reaches that node, and those that did not grant.
/// Returns the violations.
async fn data_loss_on_a_minority(flaw: Flaw) -> Vec<String> {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster, flaw);
    assert!(ours.health().await.quorum && theirs.health().await.quorum);
    cluster.nodes[3..].iter().for_each(|node| node.set_down(true));
    let holder = ours.lock("r").renew(false).acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&holder));
    cluster.nodes[3..].iter().for_each(|node| node.set_down(false));
    cluster.nodes[2].forget();
    eventually_async("the lock is acquired", async || {
        theirs.lock("r").try_acquire().await.is_ok_and(|guard| referee.enter(&guard))
    })
    .await;
    referee.violations()
}

// mutant: quarantine
#[tokio::test(start_paused = true)]
async fn a_node_that_votes_right_after_losing_its_data_is_caught() {
    assert_eq!(data_loss_on_a_minority(Flaw::None).await, Vec::<String>::new());
    assert_ne!(data_loss_on_a_minority(Flaw::SkipQuarantine).await, Vec::<String>::new());
}

/// A majority of the nodes loses the key of a held lock. Whether the lease is valid after the next renewals.
async fn is_valid_after_a_majority_lost_the_key(flaw: Flaw) -> bool {
    let cluster = MemoryCluster::new(5);
    let [ours, _] = two_managers(&cluster, flaw);
    let holder = ours.lock("r").acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    sleep(TTL * 2).await;
    holder.is_valid()
}

// mutant: no-resurrection
#[tokio::test(start_paused = true)]
async fn a_renewal_that_counts_a_restored_key_is_caught() {
    assert!(!is_valid_after_a_majority_lost_the_key(Flaw::None).await);
    assert!(is_valid_after_a_majority_lost_the_key(Flaw::CountReplacedAsKept).await);
}

#[tokio::test(start_paused = true)]
async fn the_referee_reports_two_holders_and_a_token_out_of_order() {
    let one = LockManager::in_memory().lock("r").acquire().await.unwrap();
    sleep(TTL).await;
    let two = LockManager::in_memory().lock("r").acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&two) && referee.enter(&one));
    let violations = referee.violations();
    assert_eq!(violations.len(), if one.token() > two.token() { 1 } else { 2 }, "{violations:?}");
    referee.leave(&one);
}
