use std::mem::take;
use std::sync::Arc;

use super::{Engine, Grant, NodeReply, QueuePositions, Round};
use crate::cluster::NodeSet;
use crate::error::{NodeError, NodeVote, Vote};
use crate::node::{LockKeys, Operation, QueuePosition, Reply};
use crate::options::LockOptions;
use crate::quorum::{AcquireVote, Acquisition, ConfirmVote, Failure, Step, Terms};

/// An attempt that failed and was undone.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) failure: Failure,
    pub(crate) votes: Vec<NodeVote>,
}

impl Engine {
    /// Makes one attempt to take a lock, with an owner id of its own, and reserves `tokens` tokens.
    ///
    /// With `positions`, the caller waits: it enters the queue of every node that does not grant.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves a release behind on every node that may have granted, which also gives up the queue
    /// position on that node. The other positions stay the caller's.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        keys: &LockKeys,
        options: &LockOptions,
        tokens: u32,
        positions: Option<&mut QueuePositions>,
    ) -> Result<Grant, FailedAttempt> {
        let mut attempt = Attempt::send(self, keys, options, tokens, positions);
        let verdict = match attempt.gather().await {
            Step::Confirm { round, token, nodes } => attempt.confirm(Proposal { round, token, nodes }).await,
            step => step,
        };
        attempt.settle(&verdict)
    }
}

/// An attempt that is in progress.
///
/// The fields are dropped in this order: the replies are given up before the grant sends its release, so that a node does not
/// repeat an acquire that nobody waits for.
struct Attempt<'a> {
    acquires: Round,
    grant: Grant,
    acquisition: Acquisition,
    votes: Vec<Vote>,
    /// Lent by a caller that waits. While a node's reply is pending, its queue position is the grant's to give up.
    positions: Option<&'a mut QueuePositions>,
    /// The nodes that may have had a position before this attempt.
    queued_before: NodeSet,
    engine: &'a Arc<Engine>,
    tokens: u32,
}

/// A token that the nodes are asked to confirm.
struct Proposal {
    round: u8,
    token: u64,
    nodes: Vec<usize>,
}

impl<'a> Attempt<'a> {
    /// Sends the acquire to all nodes.
    fn send(
        engine: &'a Arc<Engine>,
        keys: &LockKeys,
        options: &LockOptions,
        tokens: u32,
        mut positions: Option<&'a mut QueuePositions>,
    ) -> Self {
        let (cluster, ttl) = (&engine.cluster, options.ttl);
        let since = positions.as_ref().and_then(|positions| positions.since);
        let queued_before = positions.as_deref_mut().map(|positions| take(&mut positions.nodes)).unwrap_or_default();
        let position = since.map_or(QueuePosition::None, |_| QueuePosition::Leave);
        let grant = Grant::tentative(engine, keys, ttl, NodeSet::all(cluster.size()), position);
        let mut acquires = Round::until(cluster, keys, cluster.deadline(engine.node_timeout(ttl)));
        acquires.await_majority_but(0);
        let operation = Operation::Acquire { owner: grant.owner(), ttl, hint: cluster.clock(), tokens, since };
        for node in 0..cluster.size() {
            acquires.send_when_joined(node, operation);
        }
        let acquisition = Acquisition::new(cluster.size(), Terms { ttl, min_validity: options.min_validity, tokens });
        let votes = vec![Vote::Pending; cluster.size()];
        Self { acquires, grant, acquisition, votes, positions, queued_before, engine, tokens }
    }

    /// Counts the votes until they decide, or a token has to be confirmed.
    async fn gather(&mut self) -> Step {
        while let Some(reply) = self.acquires.next().await {
            match self.count(reply) {
                Step::Wait => {}
                step => return step,
            }
        }
        // Not reached: the last vote always decides.
        Step::Failed(Failure::NoQuorum)
    }

    /// Asks the nodes to confirm a token until their votes decide. A late grant joins the round; a refusal with a higher fence
    /// may begin another round.
    async fn confirm(&mut self, proposal: Proposal) -> Step {
        let (cluster, keys, owner) = (&self.engine.cluster, self.grant.keys().clone(), self.grant.owner());
        let timeout = self.engine.node_timeout(self.grant.ttl());
        let mut round = proposal.round;
        let mut confirms = Round::new(cluster, &keys, timeout);
        let mut step = Step::from(proposal);
        loop {
            match step {
                Step::Wait => {}
                Step::Confirm { round: next, token, nodes } => {
                    if next != round {
                        (round, confirms) = (next, Round::new(cluster, &keys, timeout));
                    }
                    for node in nodes {
                        confirms.send(node, Operation::Confirm { owner, token });
                    }
                }
                Step::Granted { .. } | Step::Failed(_) => return step,
            }
            step = tokio::select! {
                biased;
                Some(reply) = self.acquires.next() => self.count(reply),
                Some(NodeReply { node, reply }) = confirms.next() => {
                    let elapsed = self.grant.sent().elapsed();
                    self.acquisition.confirm_vote(node, round, confirm_vote(&reply), elapsed)
                }
                // Not reached: the last vote always decides.
                else => Step::Failed(Failure::NoQuorum),
            };
        }
    }

    /// Hands the grant out, or undoes the attempt: dropping the grant sends the release.
    fn settle(mut self, verdict: &Step) -> Result<Grant, FailedAttempt> {
        // Replies that arrived after the one that decided: they show where there is nothing to release.
        while let Some(reply) = self.acquires.take() {
            self.record(reply);
        }
        let unsent = self.acquires.unsent();
        self.grant.nodes = self.grant.nodes.without(unsent);
        if let Some(positions) = self.positions.as_deref_mut() {
            positions.nodes = positions.nodes.union(unsent.intersection(self.queued_before));
        }
        let failure = match verdict {
            Step::Granted { token, .. } => {
                self.grant.won(*token..token + u64::from(self.tokens));
                return Ok(self.grant);
            }
            Step::Failed(failure) => *failure,
            Step::Wait | Step::Confirm { .. } => Failure::NoQuorum,
        };
        // The caller goes on waiting: the release of a node that may have granted enters its queue again.
        if let Some(positions) = self.positions.as_deref_mut()
            && let Some(since) = positions.since
        {
            positions.nodes = positions.nodes.union(self.grant.nodes);
            self.grant.position = QueuePosition::Keep(since);
        }
        let names = self.engine.cluster.members.iter().map(|member| member.node.name().to_owned());
        let votes = names.zip(self.votes).map(|(node, vote)| NodeVote { node, vote }).collect();
        Err(FailedAttempt { failure, votes })
    }

    /// Counts a reply to the acquire.
    fn count(&mut self, reply: NodeReply) -> Step {
        let node = reply.node;
        let vote = self.record(reply);
        self.acquisition.acquire_vote(node, vote, self.grant.sent().elapsed())
    }

    /// Records what a reply says about the node: whether it may hold the key, and whether it has a queue position.
    fn record(&mut self, NodeReply { node, reply }: NodeReply) -> AcquireVote {
        let (count, vote) = acquire_vote(reply);
        if !may_hold(&vote) {
            self.grant.nodes.remove(node);
            let entered = matches!(vote, Vote::Held { .. });
            if let Some(positions) = self.positions.as_deref_mut()
                && (entered && positions.since.is_some() || self.queued_before.contains(node))
            {
                positions.nodes.insert(node);
            }
        }
        self.votes[node] = vote;
        count
    }
}

impl From<Proposal> for Step {
    fn from(Proposal { round, token, nodes }: Proposal) -> Self {
        Self::Confirm { round, token, nodes }
    }
}

/// Whether a node that voted like this may have set the key.
fn may_hold(vote: &Vote) -> bool {
    match vote {
        Vote::Granted { .. } | Vote::Pending => true,
        Vote::Held { .. } => false,
        Vote::Failed(error) => error.may_have_executed(),
    }
}

fn acquire_vote(reply: Result<Reply, NodeError>) -> (AcquireVote, Vote) {
    match reply {
        Ok(Reply::Granted { token }) => (AcquireVote::Granted { token }, Vote::Granted { token }),
        Ok(Reply::Held { remaining }) => (AcquireVote::Held { remaining }, Vote::Held { remaining }),
        Ok(other) => {
            let error = NodeError::Protocol { reply: format!("{other:?} to an acquire") };
            (AcquireVote::NoReply, Vote::Failed(error))
        }
        Err(error) => (AcquireVote::NoReply, Vote::Failed(error)),
    }
}

fn confirm_vote(reply: &Result<Reply, NodeError>) -> ConfirmVote {
    match reply {
        Ok(Reply::Confirmed) => ConfirmVote::Confirmed,
        Ok(Reply::Refused { fence }) => ConfirmVote::Refused { fence: *fence },
        _ => ConfirmVote::NoReply,
    }
}
