use std::mem::take;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::{Engine, FailedAttempt, Grant, NodeReply, QueuePositions, QueueReport, SlotOffers};
use crate::cluster::NodeSet;
use crate::error::{NodeError, Vote};
use crate::node::{LockKeys, QueuePosition, Reply};
use crate::options::LockOptions;
use crate::quorum::{AcquireVote, Failure};

/// What an attempt leaves on the nodes, as far as their replies tell: where the key may be, and where the caller has a position.
///
/// Until a node has replied, it may have done either. So the record begins with the key on every node, and only a reply takes a node
/// off: an attempt that is dropped at any point releases wherever it may have been granted.
pub(super) struct AttemptRecord<'a> {
    pub(super) grant: Box<Grant>,
    pub(super) votes: Vec<Vote>,
    queue: QueueReport,
    offers: SlotOffers,
    /// Lent by a caller that waits. While a node's reply is pending, its queue position is the grant's to give up.
    positions: Option<&'a mut QueuePositions>,
    /// The nodes that may have had a position before this attempt.
    queued_before: NodeSet,
    options: &'a LockOptions,
}

impl<'a> AttemptRecord<'a> {
    /// The record of an attempt that is about to be sent to all nodes.
    pub(super) fn new(
        engine: &Arc<Engine>,
        keys: &LockKeys,
        options: &'a LockOptions,
        mut positions: Option<&'a mut QueuePositions>,
    ) -> Self {
        let nodes = engine.cluster.size();
        let since = positions.as_ref().and_then(|positions| positions.since);
        let queued_before = positions.as_deref_mut().map(|positions| take(&mut positions.nodes)).unwrap_or_default();
        let position = since.map_or(QueuePosition::None, |_| QueuePosition::Leave);
        Self {
            grant: Grant::tentative(engine, keys, options.ttl, NodeSet::all(nodes), position),
            votes: vec![Vote::Pending; nodes],
            queue: QueueReport::default(),
            offers: SlotOffers::default(),
            positions,
            queued_before,
            options,
        }
    }

    /// Since when the caller waits in the queues, if it does.
    pub(super) fn waits_since(&self) -> Option<NonZeroU64> {
        self.positions.as_deref()?.since
    }

    /// Whether the caller waits in the queues, and no node has granted.
    pub(super) fn only_refused(&self) -> bool {
        self.waits_since().is_some() && !self.votes.iter().any(|vote| matches!(vote, Vote::Granted { .. }))
    }

    /// Records what a reply to the acquire says of the node: whether it may hold the key, and whether it has a queue position.
    pub(super) fn replied(&mut self, NodeReply { node, reply }: NodeReply) -> AcquireVote {
        if let Ok(Reply::Held { offer: Some(offer), .. }) = reply {
            self.offers.add(node, offer);
        }
        let entered = match reply {
            Ok(Reply::Held { stranger, position: Some(position), .. }) => {
                self.queue.ahead = self.queue.ahead.max(position.ahead);
                self.queue.first_behind_stranger |= stranger && position.ahead == 0;
                // It had a position, and was removed: it was called and did not come in time, or nobody listened there.
                if position.anew && self.queued_before.contains(node) {
                    self.queue.passed.insert(node);
                }
                true
            }
            // The queue is full, and an earlier position is gone.
            Ok(Reply::Held { .. }) => false,
            // It did not execute the request, so it has what it had before.
            _ => self.queued_before.contains(node),
        };
        let (count, vote) = acquire_vote(reply);
        if !may_hold(&vote) {
            self.grant.footprint.nodes.remove(node);
            if let Some(positions) = self.positions.as_deref_mut()
                && entered
            {
                positions.nodes.insert(node);
            }
        }
        self.votes[node] = vote;
        count
    }

    /// The acquire was not sent to these nodes, and never will be.
    pub(super) fn not_sent(&mut self, unsent: NodeSet) {
        let nodes = &mut self.grant.footprint.nodes;
        *nodes = nodes.without(unsent);
        if let Some(positions) = self.positions.as_deref_mut() {
            positions.nodes = positions.nodes.union(unsent.intersection(self.queued_before));
        }
    }

    /// A majority granted the lock, with this many tokens, beginning with `token`.
    pub(super) fn won(mut self, token: u64, tokens: u32) -> Box<Grant> {
        // A caller that waited was woken by a majority. To the other nodes, the release of the former holder may be on its way.
        let waited = !self.queued_before.is_empty();
        let may_refuse = |vote: &Vote| matches!(vote, Vote::Held { .. }) || waited && matches!(vote, Vote::Pending);
        let is_bare = self.votes.iter().any(may_refuse);
        if is_bare || waited {
            self.keep_silent_positions();
        }
        self.grant.won(token..token.saturating_add(tokens.into()), is_bare);
        self.grant
    }

    /// A node that has not replied may refuse this attempt yet, and then has a position for it. That goes with the turn, or the node would
    /// call a caller that does not wait, and keep the key from others for that time: the release gives it up only if the turn is passed on
    /// with it, and not of a slot, of a lock that is read or was lost, or of one that is left to expire.
    ///
    /// Only if others want the lock: to leave the queues of all nodes that are merely slower than the others would cost a request each.
    fn keep_silent_positions(&mut self) {
        if let Some(positions) = self.positions.as_deref_mut() {
            let may_hold = self.grant.footprint.nodes;
            let votes = self.votes.iter().enumerate();
            let silent = votes.filter(|(_, vote)| !matches!(vote, Vote::Granted { .. })).map(|(node, _)| node);
            positions.nodes = positions.nodes.union(silent.filter(|node| may_hold.contains(*node)).collect());
        }
    }

    /// Undoes the attempt: dropping the grant sends the release. A caller that waits keeps its positions.
    ///
    /// The release itself enters the queue of a node that had granted. Between a release and another request, the key would be free
    /// there for a caller that has waited for less.
    pub(super) fn lost(mut self, failure: Failure) -> FailedAttempt {
        if let Some(positions) = self.positions.as_deref_mut()
            && let Some(since) = positions.since
        {
            positions.nodes = positions.nodes.union(self.grant.footprint.nodes);
            self.grant.footprint.position = QueuePosition::Keep { since, kind: self.options.kind };
        }
        let cluster = &self.grant.engine.cluster;
        let votes = self.votes.into_iter().enumerate().map(|(node, vote)| cluster.vote(node, vote)).collect();
        FailedAttempt { failure, votes, queue: self.queue, offers: self.offers }
    }
}

/// Whether a node that voted like this may have set the key.
fn may_hold(vote: &Vote) -> bool {
    match vote {
        Vote::Granted { .. } | Vote::Pending => true,
        Vote::Held { .. } | Vote::Free | Vote::NotALock => false,
        // A request that timed out may be executed at any later time.
        Vote::Failed(error) => error.may_have_executed(),
    }
}

fn acquire_vote(reply: Result<Reply, NodeError>) -> (AcquireVote, Vote) {
    match reply {
        Ok(Reply::Granted { token }) => (AcquireVote::Granted { token }, Vote::Granted { token }),
        Ok(Reply::Held { remaining, .. }) => (AcquireVote::Held { remaining }, Vote::Held { remaining }),
        Ok(Reply::NotALock) => (AcquireVote::Held { remaining: None }, Vote::NotALock),
        Ok(other) => {
            let error = NodeError::Protocol { reply: format!("{other:?} to an acquire") };
            (AcquireVote::NoReply, Vote::Failed(error))
        }
        Err(error) => (AcquireVote::NoReply, Vote::Failed(error)),
    }
}
