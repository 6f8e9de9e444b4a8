use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Ended, Engine, NodeSet, Round};
use crate::error::{NodeVote, VoteAnswer};
use crate::node::{LockKeys, NodeError, Reply, Request};
use crate::options::LockOptions;
use crate::quorum::{AcquireVote, Acquisition, ConfirmVote, Failure, Step, Terms, drift};
use crate::random::OwnerId;
use crate::token::FencingToken;

/// A lock that was granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    pub(crate) valid_until: Instant,
    /// The nodes that may hold the key.
    pub(crate) touched: NodeSet,
}

/// An attempt that came to nothing, and was undone.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) votes: Vec<NodeVote>,
}

/// Releases what an attempt may have left on the nodes, unless it is disarmed.
struct Undo<'a> {
    engine: &'a Arc<Engine>,
    keys: &'a LockKeys,
    owner: OwnerId,
    ttl: Duration,
    touched: NodeSet,
    armed: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.armed && !self.touched.is_empty() {
            drop(self.engine.release(self.keys, self.owner, self.ttl, self.touched, Ended::Attempt));
        }
    }
}

impl Engine {
    /// One attempt to take a lock, under an owner id of its own.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves a release behind on every node that may have granted.
    pub(crate) async fn attempt(self: &Arc<Self>, keys: &LockKeys, options: &LockOptions) -> Result<Grant, Failed> {
        let (cluster, owner, ttl) = (&self.cluster, self.random.owner(), options.ttl);
        let terms = Terms { ttl, min_validity: options.min_validity };
        let mut acquisition = Acquisition::new(cluster.size(), terms);
        let mut votes = vec![VoteAnswer::Pending; cluster.size()];
        let node_timeout = self.node_timeout(ttl);

        // In this order, so that on a drop the answers are given up before the undoing is cast: a node then does not repeat an
        // acquire that nobody waits for.
        let mut undo = Undo { engine: self, keys, owner, ttl, touched: NodeSet::default(), armed: true };
        let started = Instant::now();
        let mut acquires = Round::new(cluster, cluster.deadline(node_timeout));
        let mut confirms = (0, Round::new(cluster, started));

        let hint = cluster.clock();
        for node in 0..cluster.size() {
            undo.touched.insert(node);
            acquires.add(node, cluster.cast_when_joined(node, keys, Request::Acquire { owner, ttl, hint }));
        }
        loop {
            let step = tokio::select! {
                biased;
                Some((node, answer)) = acquires.next() => {
                    let (vote, known) = acquire_vote(answer);
                    if !may_hold(&known) {
                        undo.touched.remove(node);
                    }
                    votes[node] = known;
                    acquisition.acquire_vote(node, vote, started.elapsed())
                }
                Some((node, answer)) = confirms.1.next() => {
                    acquisition.confirm_vote(node, confirms.0, confirm_vote(&answer), started.elapsed())
                }
                // Every vote is in, so a verdict was given; this is for the compiler.
                else => Step::Failed(Failure::NoQuorum),
            };
            match step {
                Step::Wait => {}
                Step::Confirm { round, fence, nodes } => {
                    if round != confirms.0 {
                        confirms = (round, Round::new(cluster, Instant::now() + node_timeout));
                    }
                    for node in nodes {
                        confirms.1.add(node, cluster.cast(node, keys, Request::Confirm { owner, fence }));
                    }
                }
                Step::Granted { token, .. } => {
                    undo.armed = false;
                    // From before the first request, not from now: this task may have slept since it looked at the clock.
                    let (token, valid_until) = (FencingToken::new(token), started + (ttl - drift(ttl)));
                    return Ok(Grant { owner, token, valid_until, touched: undo.touched });
                }
                Step::Failed(failure) => {
                    let names = cluster.members.iter().map(|member| member.node.name().to_owned());
                    let votes = names.zip(votes).map(|(node, answer)| NodeVote { node, answer }).collect();
                    return Err(Failed { failure, votes });
                }
            }
        }
    }
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
