use std::num::NonZeroU64;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Claim, Ended, Engine, NodeSet, Round, Tenure, Traces};
use crate::error::{NodeVote, VoteAnswer};
use crate::node::{LockKeys, NodeError, Place, Reply, Request};
use crate::options::LockOptions;
use crate::quorum::{AcquireVote, Acquisition, ConfirmVote, Failure, Step, Terms};

/// An attempt that came to nothing, and was undone.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) votes: Vec<NodeVote>,
    /// The nodes that may have a place in their queue for it.
    pub(crate) queued: NodeSet,
}

/// The place in the queues of the nodes of one that waits.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    /// Since when it waits, by the cluster clock.
    pub(crate) since: NonZeroU64,
    /// The nodes that may have its place already.
    pub(crate) nodes: NodeSet,
}

impl Engine {
    /// One attempt to take a lock, under an owner id of its own, and `tokens` tokens for it. One that waits enters the queue on
    /// every node that does not grant.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves a release behind on every node that may have granted, and gives up its place on every node:
    /// nobody may be left who waits for a turn. Who is comes back with the same `since`.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        keys: &LockKeys,
        options: &LockOptions,
        queued: Option<Queued>,
        tokens: u32,
    ) -> Result<Tenure, Failed> {
        let (cluster, owner, ttl) = (&self.cluster, self.random.owner(), options.ttl);
        let terms = Terms { ttl, min_validity: options.min_validity, tokens };
        let mut acquisition = Acquisition::new(cluster.size(), terms);
        let mut votes = vec![VoteAnswer::Pending; cluster.size()];
        let node_timeout = self.node_timeout(ttl);

        // In this order, so that on a drop the answers are given up before the undoing is cast: a node then does not repeat an
        // acquire that nobody waits for.
        let since = queued.map(|queued| queued.since);
        let before = queued.map(|queued| queued.nodes).unwrap_or_default();
        let (nodes, queued) = (NodeSet::all(cluster.size()), NodeSet::default());
        let place = since.map_or(Place::None, |_| Place::Leave);
        let traces = Traces { keys: keys.clone(), owner, ttl, nodes, queued, place };
        let mut claim = Claim::new(self, traces, Ended::Attempt);
        let sent = Instant::now();
        let mut acquires = Round::new(cluster, keys, cluster.deadline(node_timeout));
        acquires.await_majority_but(0);
        let mut confirms = None;

        let request = Request::Acquire { owner, ttl, hint: cluster.clock(), tokens, since };
        for node in 0..cluster.size() {
            acquires.cast_when_joined(node, request);
        }
        let traced = |traces: &mut Traces, node, known: &VoteAnswer| {
            if !may_hold(known) {
                traces.nodes.remove(node);
                let held = matches!(known, VoteAnswer::Held { .. });
                if since.is_some() && held || before.contains(node) {
                    traces.queued.insert(node);
                }
            }
        };
        let verdict = loop {
            let step = tokio::select! {
                biased;
                Some((node, answer)) = acquires.next() => {
                    let (vote, known) = acquire_vote(answer);
                    traced(&mut claim.traces, node, &known);
                    votes[node] = known;
                    acquisition.acquire_vote(node, vote, sent.elapsed())
                }
                Some((round, node, answer)) = next_confirm(&mut confirms) => {
                    acquisition.confirm_vote(node, round, confirm_vote(&answer), sent.elapsed())
                }
                // Every vote is in, so a verdict was given; this is for the compiler.
                else => Step::Failed(Failure::NoQuorum),
            };
            match step {
                Step::Wait => {}
                Step::Confirm { round, fence, nodes } => {
                    if confirms.as_ref().is_none_or(|(present, _)| *present != round) {
                        confirms = Some((round, Round::new(cluster, keys, Instant::now() + node_timeout)));
                    }
                    let Some((_, confirms)) = &mut confirms else { continue };
                    for node in nodes {
                        confirms.cast(node, Request::Confirm { owner, fence });
                    }
                }
                Step::Granted { token, .. } => break Ok(token),
                Step::Failed(failure) => break Err(failure),
            }
        };
        // Answers that came behind the one that decided: a node that is away is not to be told, again and again.
        while let Some((node, answer)) = acquires.take() {
            votes[node] = acquire_vote(answer).1;
            traced(&mut claim.traces, node, &votes[node]);
        }
        let uncast = acquires.uncast();
        claim.traces.nodes = claim.traces.nodes.without(uncast);
        claim.traces.queued = claim.traces.queued.union(uncast.intersection(before));
        match verdict {
            Ok(token) => {
                claim.ended = Ended::Lease;
                let spare = token + 1..=token + u64::from(tokens) - 1;
                Ok(Tenure { claim, token, spare, sent, granted: Instant::now() })
            }
            Err(failure) => {
                let names = cluster.members.iter().map(|member| member.node.name().to_owned());
                let votes = names.zip(votes).map(|(node, answer)| NodeVote { node, answer }).collect();
                // The places are kept: they are the caller's again, with those that the undoing makes.
                let mut queued = std::mem::take(&mut claim.traces.queued);
                if let Some(since) = since {
                    queued = queued.union(claim.traces.nodes);
                    claim.traces.place = Place::Keep(since);
                }
                Err(Failed { failure, votes, queued })
            }
        }
    }
}

/// The next answer of the confirms that are under way.
async fn next_confirm(confirms: &mut Option<(u8, Round)>) -> Option<(u8, usize, Result<Reply, NodeError>)> {
    let (round, confirms) = confirms.as_mut()?;
    let (node, answer) = confirms.next().await?;
    Some((*round, node, answer))
}

/// Whether a node that answered so may have set the key.
fn may_hold(answer: &VoteAnswer) -> bool {
    match answer {
        VoteAnswer::Granted { .. } | VoteAnswer::Pending => true,
        VoteAnswer::Held { .. } => false,
        VoteAnswer::Failed(error) => error.may_have_executed(),
    }
}

fn acquire_vote(answer: Result<Reply, NodeError>) -> (AcquireVote, VoteAnswer) {
    match answer {
        Ok(Reply::Granted { fence }) => (AcquireVote::Granted { fence }, VoteAnswer::Granted { fence }),
        Ok(Reply::Held { remaining }) => (AcquireVote::Held { remaining }, VoteAnswer::Held { remaining }),
        Ok(other) => {
            let error = NodeError::Protocol { answer: format!("{other:?} to an acquire") };
            (AcquireVote::NoAnswer, VoteAnswer::Failed(error))
        }
        Err(error) => (AcquireVote::NoAnswer, VoteAnswer::Failed(error)),
    }
}

fn confirm_vote(answer: &Result<Reply, NodeError>) -> ConfirmVote {
    match answer {
        Ok(Reply::Confirmed) => ConfirmVote::Confirmed,
        Ok(Reply::Refused { fence }) => ConfirmVote::Refused { fence: *fence },
        _ => ConfirmVote::NoAnswer,
    }
}
