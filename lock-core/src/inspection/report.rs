use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, Epochs, LOOK_TIMEOUT};
use crate::error::NodeError;
use crate::node::{Holder, HolderTag, Keyspace, LockKeys, LockState};
use crate::options::OTHER;
use crate::quorum::{Holding, HoldingVote, holding, majority};
use crate::waiting::Turns;

/// What the nodes have of one lock, at one moment.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::LockManager;
/// use lock_core::inspection::LockVerdict;
///
/// let locks = LockManager::in_memory();
/// let guard = locks.lock("stock:42").acquire().await?;
/// let report = locks.inspect("stock:42").await?;
/// assert_eq!(report.verdict(), LockVerdict::Held);
/// if let Some(holder) = report.holder {
///     println!("{} is held by {holder}, on {} nodes", report.resource, report.nodes.len());
/// }
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// The name of the resource.
    pub resource: String,
    /// The holder on a majority of the nodes, if there is one. `None` if it is held by readers.
    pub holder: Option<HolderTag>,
    /// Each node, in the order in which they were named.
    pub nodes: Vec<LockOnNode>,
    verdict: LockVerdict,
}

/// What one node has of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOnNode {
    /// The name of the node: an address, without a password.
    pub name: String,
    /// Whether it votes, and so counts for [`LockReport::verdict`].
    pub votes: bool,
    /// The writer that has the key of the lock on this node.
    pub holder: Option<HolderTag>,
    /// The readers that have it: at most 1024, those that expire last.
    pub readers: Vec<HolderTag>,
    /// Whether the holder is a stranger: the value of the key is not one that this library writes.
    pub stranger: bool,
    /// How much longer the key lives, unless it is renewed. `None` if there is no key, or it does not expire.
    pub remaining: Option<Duration>,
    /// The highest token that the node has assigned to this lock, or to another one that shares its fence. `None` if it did not reply.
    pub fence: Option<u64>,
    /// How many managers wait in the queue of the node.
    pub waiters: u32,
    /// The holders that were force-released and cannot have the lock again.
    pub evicted: Vec<HolderTag>,
    /// What keeps the node from voting, or from replying.
    pub problem: Option<NodeError>,
}

/// The state of a lock, as a majority of the nodes says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockVerdict {
    /// Nobody.
    Free,
    /// One holder.
    Held,
    /// Readers.
    Shared {
        /// How many have it on a majority of the nodes. All readers of one process count as one.
        readers: usize,
    },
    /// The nodes do not agree: an attempt or a release is in progress, or was cut short; or the nodes that did not reply would decide.
    /// The keys that are left expire on their own.
    Split,
    /// Fewer than a majority of the nodes replied, so nobody knows.
    NoQuorum,
}

impl LockReport {
    /// The state of the lock, as a majority of the voting nodes says.
    ///
    /// It may have changed since the nodes replied: do not use it to decide who may write.
    #[must_use]
    pub fn verdict(&self) -> LockVerdict {
        self.verdict
    }
}

impl fmt::Display for LockVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Shared { .. } => "shared",
            Self::Split => "split",
            Self::NoQuorum => "no quorum",
        })
    }
}

/// What a node says of the holder.
pub(super) fn holding_vote<'a>(state: Result<&'a LockState, &'a NodeError>) -> HoldingVote<&'a Holder> {
    match state {
        Ok(LockState { holder: Some(holder), .. }) => HoldingVote::Held(holder),
        Ok(_) => HoldingVote::Free,
        Err(_) => HoldingVote::NoReply,
    }
}

/// Asks all nodes, also those that do not vote.
pub(crate) async fn inspect(cluster: Arc<Cluster>, keys: LockKeys, resource: String) -> LockReport {
    cluster.all_joined().await;
    let (epochs, states) = cluster.look_by_present_roster(&keys, true, LOOK_TIMEOUT).await;
    let votes: Vec<_> =
        epochs.iter().zip(&states).map(|(epoch, state)| holding_vote(epoch.as_ref().and(state.as_ref()))).collect();
    let (verdict, holder) = match holding(&votes) {
        Holding::Free => (LockVerdict::Free, None),
        Holding::Held(Holder::Readers) => (LockVerdict::Shared { readers: count_readers(&epochs, &states) }, None),
        Holding::Held(holder) => (LockVerdict::Held, Some(holder.tag())),
        Holding::Split => (LockVerdict::Split, None),
        Holding::NoQuorum => (LockVerdict::NoQuorum, None),
    };
    let nodes = states.iter().enumerate().map(|(node, state)| {
        let name = cluster.name(node).to_owned();
        let problem = cluster.problem(node).or_else(|| epochs[node].as_ref().err().cloned());
        report_node(name, state, problem)
    });
    LockReport { resource, holder, nodes: nodes.collect(), verdict }
}

/// How many readers a majority of the nodes that vote has.
fn count_readers(epochs: &Epochs, states: &[Result<LockState, NodeError>]) -> usize {
    let voting = epochs.iter().zip(states).filter(|(epoch, _)| epoch.is_ok()).flat_map(|(_, state)| state);
    let mut nodes = HashMap::new();
    voting.flat_map(|state| &state.readers).for_each(|reader| *nodes.entry(reader.owner).or_insert(0) += 1);
    nodes.values().filter(|count| **count >= majority(states.len())).count()
}

fn report_node(name: String, state: &Result<LockState, NodeError>, problem: Option<NodeError>) -> LockOnNode {
    let problem = state.as_ref().err().cloned().or(problem);
    let (fence, nothing) = (state.as_ref().ok().map(|state| state.fence), LockState::default());
    let LockState { holder, readers, remaining, waiters, evicted, .. } = state.as_ref().unwrap_or(&nothing);
    LockOnNode {
        name,
        votes: problem.is_none(),
        holder: holder.as_ref().filter(|holder| **holder != Holder::Readers).map(Holder::tag),
        readers: readers.iter().map(|reader| Holder::Owner(reader.owner).tag()).collect(),
        stranger: matches!(holder, Some(Holder::Stranger(_) | Holder::NotALock)),
        remaining: remaining.filter(|_| holder.is_some()),
        fence,
        waiters: *waiters,
        evicted: evicted.iter().map(|owner| Holder::Owner(*owner).tag()).collect(),
        problem,
    }
}

/// A resource that callers of a manager wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Its name.
    pub resource: String,
    /// What the name was made from, according to the caller that came first; `other` if that is not known.
    pub template: String,
    /// Whether they wait for a [permit](crate::LockManager::permits), and not for the lock.
    pub permits: bool,
    /// How many have asked and do not hold it.
    pub callers: usize,
}

pub(crate) fn waiting(turns: &Turns, keyspace: &Keyspace) -> Vec<Waiting> {
    let waiting = turns.waiting().into_iter().map(|(keys, template, callers)| Waiting {
        resource: keyspace.resource_of_queue(keys.queue()).to_owned(),
        permits: keys.slot().is_some(),
        template: template.as_deref().unwrap_or(OTHER).to_owned(),
        callers,
    });
    waiting.collect()
}
