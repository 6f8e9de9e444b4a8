//! The second round of an attempt whose nodes proposed different tokens.

use tokio::time::Instant;

use super::attempt::{Attempt, NO_QUORUM, overtaken};
use super::{NodeReply, Round};
use crate::error::NodeError;
use crate::node::{Operation, Reply};
use crate::quorum::{ConfirmVote, Step};

impl Attempt<'_> {
    /// Asks the nodes to confirm the proposed token until their votes decide. A late grant joins the round; a refusal with a higher fence
    /// may begin another round.
    pub(super) async fn confirm(&mut self, mut step: Step) -> Step {
        let (cluster, keys, owner) = (&self.engine.cluster, self.wanted.keys, self.record.grant.owner());
        let timeout = self.engine.node_timeout(self.wanted.options.ttl);
        // By the same roster: nodes that vote by another one may belong to another majority.
        let new_round = |acquires: &Round| {
            let now = Instant::now();
            Round::until(cluster, keys, now + timeout).time_from_write(timeout).timed(now).by_roster_of(acquires)
        };
        let (mut round, mut confirms) = (None, new_round(&self.acquires));
        loop {
            match step {
                Step::Wait => {}
                Step::Confirm { round: next, token, nodes } => {
                    if round.replace(next).is_some_and(|round| round != next) {
                        // The replies to the round before are given up with it.
                        confirms = new_round(&self.acquires);
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
                Some(NodeReply { node, reply }) = confirms.next_or_late(&self.engine.background.closing, |deadline| {
                    self.patience.late_until(deadline)
                }) => {
                    self.notice_roster(reply.as_ref().err());
                    // Counted from the first request of the attempt, not of this round: the keys have lived since then.
                    let elapsed = self.sent().elapsed();
                    self.acquisition.confirm_vote(node, round.unwrap_or_default(), confirm_vote(&reply), elapsed)
                }
                () = overtaken(self.engine, self.next_roster), if self.next_roster.is_some() => NO_QUORUM,
                // Not reached: the last vote always decides.
                else => NO_QUORUM,
            };
        }
    }
}

fn confirm_vote(reply: &Result<Reply, NodeError>) -> ConfirmVote {
    match reply {
        Ok(Reply::Confirmed) => ConfirmVote::Confirmed,
        Ok(Reply::Refused { fence }) => ConfirmVote::Refused { fence: *fence },
        // Whatever failed, the node may have raised its fence. That makes tokens skip, and never repeat.
        _ => ConfirmVote::NoReply,
    }
}
