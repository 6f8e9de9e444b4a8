use std::time::Duration;

use super::{majority, validity};

/// What an acquisition asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The time to live that the nodes were asked for.
    pub ttl: Duration,
    /// The least validity with which the lock is of use. A grant with less is [`Failure::Expired`].
    pub min_validity: Duration,
    /// How many tokens in a row are asked for, at least 1. The numbers of grants and confirms are the last of them.
    pub tokens: u32,
}

/// A node's vote on an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireVote {
    /// Ours on this node, with its fencing number.
    Granted {
        /// The fencing number.
        token: u64,
    },
    /// Held by another owner, or kept for another.
    Held {
        /// How long yet; `None` for a key that does not expire.
        remaining: Option<Duration>,
    },
    /// No answer, or none that counts.
    NoReply,
}

/// A node's vote on a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfirmVote {
    /// The number is the node's own, and the key ours.
    Confirmed,
    /// Not ours any more, or the node has seen a higher number.
    Refused {
        /// The node's fence.
        fence: u64,
    },
    /// No answer, or none that counts.
    NoReply,
}

/// What is to be done after a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the verdict is open, or was given before.
    Wait,
    /// Ask these nodes to confirm this number, in this round.
    Confirm {
        /// The round; hand it back with the votes.
        round: u8,
        /// The number that is proposed as the token.
        token: u64,
        /// Whom to ask.
        nodes: Vec<usize>,
    },
    /// The lock is ours.
    Granted {
        /// The fencing token: the first of those that were asked for.
        token: u64,
        /// For how long yet.
        validity: Duration,
    },
    /// The attempt failed: release what may have been granted.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A majority of nodes answered, but not with a grant.
    Contended {
        /// When enough keys will have expired for a majority, if nobody renews or releases them; `None` when it can not be
        /// told.
        free_in: Option<Duration>,
    },
    /// Fewer than a majority of nodes answered.
    NoQuorum,
    /// A majority granted, but too late for the lock to be of use.
    Expired,
}

/// One attempt to acquire a lock.
///
/// Feed it every vote; it gives one verdict ([`Step::Granted`] or [`Step::Failed`]), with the first vote that decides.
///
/// # The token
///
/// 1. A majority granted the **same** number: that is the token.
/// 2. Otherwise the largest number is put to all nodes that granted. A majority that confirms makes it the token. A node
///    that refuses with a higher number allows one more round, with the next number.
///
/// A confirm counts only if the node still holds the key for this very attempt. Without that, two attempts could confirm
/// one number; with "or it is what I told you" in place of it, too.
///
/// Where several tokens are reserved, the same is done with the last of them: each node counts as many up, so the numbers
/// between a node's old one and its answer are at least as many. No other attempt can be given any of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    terms: Terms,
    nodes: Vec<VoteState>,
    phase: Phase,
}

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum VoteState {
    Open,
    Granted { token: u64, confirm: Confirm },
    Held { remaining: Option<Duration> },
    NoReply,
}

/// How a granting node stands to the number of the present round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Confirm {
    Open,
    Confirmed,
    Refused { fence: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Gathering,
    Confirming { round: u8, token: u64 },
    Decided,
}

/// Rounds of confirmation before an attempt gives up.
const MAX_ROUNDS: u8 = 2;

impl Acquisition {
    /// An attempt on `nodes` nodes, before any vote.
    #[must_use]
    pub fn new(nodes: usize, terms: Terms) -> Self {
        Self { terms, nodes: vec![VoteState::Open; nodes], phase: Phase::Gathering }
    }

    /// Takes a node's vote on the acquire, `elapsed` after the attempt's clock was started.
    pub fn acquire_vote(&mut self, node: usize, vote: AcquireVote, elapsed: Duration) -> Step {
        let Some(state @ VoteState::Open) = self.nodes.get_mut(node) else { return Step::Wait };
        *state = match vote {
            AcquireVote::Granted { token } => VoteState::Granted { token, confirm: Confirm::Open },
            AcquireVote::Held { remaining } => VoteState::Held { remaining },
            AcquireVote::NoReply => VoteState::NoReply,
        };
        match (self.phase, vote) {
            (Phase::Gathering, _) => self.count_grants(elapsed),
            // A late grant joins the round that is under way: it may be the one that completes the majority.
            (Phase::Confirming { round, token }, AcquireVote::Granted { .. }) => {
                Step::Confirm { round, token, nodes: vec![node] }
            }
            (Phase::Confirming { .. }, _) => self.count_confirms(elapsed),
            (Phase::Decided, _) => Step::Wait,
        }
    }

    /// Takes a node's vote on the confirm of a round, `elapsed` after the attempt's clock was started.
    pub fn confirm_vote(&mut self, node: usize, round: u8, vote: ConfirmVote, elapsed: Duration) -> Step {
        match self.phase {
            Phase::Confirming { round: present, .. } if present == round => {}
            _ => return Step::Wait,
        }
        let Some(state) = self.nodes.get_mut(node) else { return Step::Wait };
        let VoteState::Granted { confirm: confirm @ Confirm::Open, .. } = state else { return Step::Wait };
        match vote {
            ConfirmVote::Confirmed => *confirm = Confirm::Confirmed,
            ConfirmVote::Refused { fence } => *confirm = Confirm::Refused { fence },
            ConfirmVote::NoReply => *state = VoteState::NoReply,
        }
        self.count_confirms(elapsed)
    }

    fn count_grants(&mut self, elapsed: Duration) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|state| matches!(state, VoteState::Open));
        let grants: Vec<u64> = self.grants().map(|(_, token, _)| token).collect();
        if grants.len() < quorum {
            return if grants.len() + open < quorum { self.fail_when_classified() } else { Step::Wait };
        }
        let agreed = |token: &u64| grants.iter().filter(|other| *other == token).count() >= quorum;
        if let Some(token) = grants.iter().copied().find(agreed) {
            return self.decide(token, elapsed);
        }
        self.propose(1, grants.into_iter().max().unwrap_or_default(), elapsed)
    }

    fn count_confirms(&mut self, elapsed: Duration) -> Step {
        let Phase::Confirming { round, token } = self.phase else { return Step::Wait };
        let quorum = majority(self.nodes.len());
        let open =
            self.count(|state| matches!(state, VoteState::Open | VoteState::Granted { confirm: Confirm::Open, .. }));
        let confirmed = self.count(|state| matches!(state, VoteState::Granted { confirm: Confirm::Confirmed, .. }));
        if confirmed >= quorum {
            return self.decide(token, elapsed);
        }
        if confirmed + open >= quorum {
            return Step::Wait;
        }
        let higher = self.grants().filter_map(|(_, _, confirm)| match confirm {
            Confirm::Refused { fence: seen } if seen > token => Some(seen),
            _ => None,
        });
        match higher.max() {
            Some(seen) if round < MAX_ROUNDS && self.grants().count() >= quorum => {
                self.propose(round + 1, seen + u64::from(self.terms.tokens), elapsed)
            }
            _ => self.fail_when_classified(),
        }
    }

    fn propose(&mut self, round: u8, token: u64, elapsed: Duration) -> Step {
        if validity(self.terms.ttl, elapsed).is_none() {
            return self.fail(Failure::Expired);
        }
        self.phase = Phase::Confirming { round, token };
        for state in &mut self.nodes {
            if let VoteState::Granted { confirm, .. } = state {
                *confirm = Confirm::Open;
            }
        }
        Step::Confirm { round, token, nodes: self.grants().map(|(node, ..)| node).collect() }
    }

    fn decide(&mut self, token: u64, elapsed: Duration) -> Step {
        match validity(self.terms.ttl, elapsed) {
            Some(validity) if validity >= self.terms.min_validity => {
                self.phase = Phase::Decided;
                Step::Granted { token: (token + 1).saturating_sub(self.terms.tokens.into()), validity }
            }
            _ => self.fail(Failure::Expired),
        }
    }

    /// Fails if the votes tell why; waits for more of them while they do not.
    fn fail_when_classified(&mut self) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|state| matches!(state, VoteState::Open));
        let answered = self.count(|state| matches!(state, VoteState::Granted { .. } | VoteState::Held { .. }));
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

    /// When a majority will be free, if nobody renews: the time after which enough of the keys have expired.
    fn free_in(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self
            .nodes
            .iter()
            .filter_map(|state| match state {
                VoteState::Granted { .. } => Some(Duration::ZERO),
                VoteState::Held { remaining } => *remaining,
                VoteState::Open | VoteState::NoReply => None,
            })
            .collect();
        times.sort_unstable();
        times.get(majority(self.nodes.len()) - 1).copied()
    }

    fn count(&self, wanted: impl Fn(&VoteState) -> bool) -> usize {
        self.nodes.iter().filter(|state| wanted(state)).count()
    }

    fn grants(&self) -> impl Iterator<Item = (usize, u64, Confirm)> + '_ {
        self.nodes.iter().enumerate().filter_map(|(node, state)| match state {
            VoteState::Granted { token, confirm } => Some((node, *token, *confirm)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
