use std::time::Duration;

use super::{majority, validity};
use crate::node::MAX_TOKEN;

/// The terms of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The time to live of the key.
    pub ttl: Duration,
    /// The minimum validity. A grant with less of it left is [`Failure::Expired`].
    pub min_validity: Duration,
    /// How many consecutive tokens are reserved, at least 1. The token in grants and confirms is the last of them.
    pub tokens: u32,
}

/// A node's vote on an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireVote {
    /// The node holds the key for this attempt.
    Granted {
        /// The token that the node assigned.
        token: u64,
    },
    /// Another owner holds the key, or it is kept for another waiter.
    Held {
        /// How much longer; `None` for a key that does not expire.
        remaining: Option<Duration>,
    },
    /// No reply, or none that counts.
    NoReply,
}

/// A node's vote on a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfirmVote {
    /// The node holds the key for this attempt, and the proposed token is its fence.
    Confirmed,
    /// The node does not hold the key any more, or has assigned a higher token.
    Refused {
        /// The node's fence.
        fence: u64,
    },
    /// No reply, or none that counts.
    NoReply,
}

/// What to do after a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: there is no verdict, or it was returned before.
    Wait,
    /// Ask these nodes to confirm this token.
    Confirm {
        /// The round. Return it with the votes.
        round: u8,
        /// The proposed token.
        token: u64,
        /// The nodes to ask.
        nodes: Vec<usize>,
    },
    /// The lock is granted.
    Granted {
        /// The first of the reserved tokens.
        token: u64,
    },
    /// The attempt failed. Release what may have been granted.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A majority of the nodes replied, but did not grant.
    Contended {
        /// When enough keys will have expired for a majority, unless they are renewed or released; `None` if that is not
        /// known.
        free_in: Option<Duration>,
    },
    /// Fewer than a majority of the nodes replied.
    NoQuorum,
    /// A majority granted, but too little validity was left.
    Expired,
}

/// One attempt to acquire a lock.
///
/// Pass it every vote. The first vote that decides returns the verdict, [`Step::Granted`] or [`Step::Failed`].
///
/// # The token
///
/// 1. If a majority granted with the **same** token, that is the token.
/// 2. Otherwise the largest token is proposed to all nodes that granted, and becomes the token when a majority confirms it. If
///    a node refuses because its fence is higher, there is one more round, with the next token above that fence.
///
/// A token that a majority granted is safe without a confirmation: every later attempt needs the grant of one of these nodes, and
/// that one grants only above its fence. The largest of different tokens is not: the fences of the other nodes are lower, and a later
/// attempt might be granted by a majority with a smaller token. A confirm raises them.
///
/// A node confirms only while it holds the key for this very attempt. Without that condition, or with "its fence is still
/// what it granted" as an alternative to it, two attempts could be confirmed with the same token.
///
/// If several tokens are reserved, all of this applies to the last of them. Each node raises its fence by at least as many, so no
/// other attempt can be given any of the tokens in between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    terms: Terms,
    nodes: Vec<Votes>,
    phase: Phase,
}

/// The votes of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Votes {
    acquire: Option<AcquireVote>,
    /// On the token of the present round, by a node that granted.
    confirm: Option<ConfirmVote>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Gathering,
    Confirming { round: u8, token: u64 },
    Decided,
}

/// How many rounds of confirmation an attempt makes. A second one is for the fence of an attempt that failed meanwhile. If the fences
/// rise faster than that, each further round only uses up validity.
const MAX_ROUNDS: u8 = 2;

impl Acquisition {
    /// An attempt on `nodes` nodes, before the first vote.
    pub fn new(nodes: usize, terms: Terms) -> Self {
        Self { terms, nodes: vec![Votes::default(); nodes], phase: Phase::Gathering }
    }

    /// Counts a node's vote on the acquire, `elapsed` after the attempt began.
    pub fn acquire_vote(&mut self, node: usize, vote: AcquireVote, elapsed: Duration) -> Step {
        // A node votes once. The engine gives up on a node that is late, and its reply must not count beside that.
        let Some(votes @ Votes { acquire: None, .. }) = self.nodes.get_mut(node) else { return Step::Wait };
        votes.acquire = Some(vote);
        match (self.phase, vote) {
            (Phase::Gathering, _) => self.count_grants(elapsed),
            // A late grant joins the present round: it may be the one that completes the majority.
            (Phase::Confirming { round, token }, AcquireVote::Granted { .. }) => {
                Step::Confirm { round, token, nodes: vec![node] }
            }
            (Phase::Confirming { .. }, _) => self.count_confirms(elapsed),
            (Phase::Decided, _) => Step::Wait,
        }
    }

    /// Counts a node's vote on the confirm of a round, `elapsed` after the attempt began.
    pub fn confirm_vote(&mut self, node: usize, round: u8, vote: ConfirmVote, elapsed: Duration) -> Step {
        match self.phase {
            // A late vote of the first round says nothing of the token of the second.
            Phase::Confirming { round: present, .. } if present == round => {}
            _ => return Step::Wait,
        }
        let Some(votes) = self.nodes.get_mut(node).filter(|votes| votes.may_confirm()) else { return Step::Wait };
        match vote {
            // Its grant counts no more, either: whether it holds the key is not known.
            ConfirmVote::NoReply => votes.acquire = Some(AcquireVote::NoReply),
            _ => votes.confirm = Some(vote),
        }
        self.count_confirms(elapsed)
    }

    fn count_grants(&mut self, elapsed: Duration) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|votes| votes.acquire.is_none());
        let granted = self.grants().count();
        if granted < quorum {
            return if granted + open < quorum { self.fail_when_reason_is_clear() } else { Step::Wait };
        }
        // The usual case, in one round trip: nodes that have seen the same attempts, or were given the same clock as a hint, agree.
        let tokens = || self.grants().map(|(_, token)| token);
        let agreed = tokens().find(|token| tokens().filter(|other| other == token).count() >= quorum);
        let largest = tokens().max().unwrap_or_default();
        match agreed {
            Some(token) => self.grant_or_expire(token, elapsed),
            None => self.propose(1, largest, elapsed),
        }
    }

    fn count_confirms(&mut self, elapsed: Duration) -> Step {
        let Phase::Confirming { round, token } = self.phase else { return Step::Wait };
        let quorum = majority(self.nodes.len());
        let open = self.count(|votes| votes.acquire.is_none() || votes.may_confirm());
        let confirmed = self.count(|votes| votes.confirm == Some(ConfirmVote::Confirmed));
        if confirmed >= quorum {
            return self.grant_or_expire(token, elapsed);
        }
        if confirmed + open >= quorum {
            return Step::Wait;
        }
        // Only a fence that is higher is worth another round. A node that refused for another reason has lost the key.
        let higher = self.nodes.iter().filter_map(|votes| match votes.confirm {
            Some(ConfirmVote::Refused { fence: seen }) if seen > token => Some(seen),
            _ => None,
        });
        let next = higher.max().and_then(|seen| seen.checked_add(self.terms.tokens.into()));
        match next.filter(|next| *next <= MAX_TOKEN) {
            Some(next) if round < MAX_ROUNDS && self.grants().count() >= quorum => {
                self.propose(round + 1, next, elapsed)
            }
            _ => self.fail_when_reason_is_clear(),
        }
    }

    fn propose(&mut self, round: u8, token: u64, elapsed: Duration) -> Step {
        // Without validity left, another round trip cannot end in a grant.
        if validity(self.terms.ttl, elapsed).is_none() {
            return self.fail(Failure::Expired);
        }
        self.phase = Phase::Confirming { round, token };
        // All of them, also those that confirmed the token of the first round: a majority has to have the same one.
        self.nodes.iter_mut().for_each(|votes| votes.confirm = None);
        Step::Confirm { round, token, nodes: self.grants().map(|(node, _)| node).collect() }
    }

    /// Grants the lock, unless too little of its validity is left.
    fn grant_or_expire(&mut self, token: u64, elapsed: Duration) -> Step {
        // Judged at the end, with the time that all rounds took: a majority is worth nothing when its keys are about to expire.
        if validity(self.terms.ttl, elapsed).is_none_or(|left| left < self.terms.min_validity) {
            return self.fail(Failure::Expired);
        }
        self.phase = Phase::Decided;
        let others = self.terms.tokens.saturating_sub(1);
        Step::Granted { token: token.saturating_sub(others.into()) }
    }

    /// Fails if the votes show why, and otherwise waits for more of them: a caller waits for its turn if the lock is held, and is told of
    /// an outage if the nodes are not there. Mistaking one for the other costs more than waiting for the last replies.
    fn fail_when_reason_is_clear(&mut self) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|votes| votes.acquire.is_none());
        let answered = self.count(|votes| !matches!(votes.acquire, None | Some(AcquireVote::NoReply)));
        if answered >= quorum {
            let free_in = self.free_in();
            self.fail(Failure::Contended { free_in })
        } else if answered + open < quorum {
            self.fail(Failure::NoQuorum)
        } else {
            Step::Wait
        }
    }

    fn fail(&mut self, failure: Failure) -> Step {
        self.phase = Phase::Decided;
        Step::Failed(failure)
    }

    /// When a majority of the nodes will be free: when enough keys have expired, unless they are renewed.
    fn free_in(&self) -> Option<Duration> {
        let time = |votes: &Votes| match votes.acquire? {
            // This attempt is about to release it.
            AcquireVote::Granted { .. } => Some(Duration::ZERO),
            AcquireVote::Held { remaining } => remaining,
            AcquireVote::NoReply => None,
        };
        // A majority is free when the slowest of its fastest nodes is: of five, the third.
        let mut times: Vec<Duration> = self.nodes.iter().filter_map(time).collect();
        times.sort_unstable();
        times.get(majority(self.nodes.len()) - 1).copied()
    }

    fn count(&self, wanted: impl Fn(&Votes) -> bool) -> usize {
        self.nodes.iter().filter(|votes| wanted(votes)).count()
    }

    /// The nodes that granted, each with its token.
    fn grants(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.nodes.iter().enumerate().filter_map(|(node, votes)| match votes.acquire {
            Some(AcquireVote::Granted { token }) => Some((node, token)),
            _ => None,
        })
    }
}

impl Votes {
    /// Whether the node granted, and has not voted on the token of the present round.
    fn may_confirm(&self) -> bool {
        matches!(self, Self { acquire: Some(AcquireVote::Granted { .. }), confirm: None })
    }
}

#[cfg(test)]
mod tests;
