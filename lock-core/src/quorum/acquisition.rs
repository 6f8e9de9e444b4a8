use std::time::Duration;

use super::{majority, validity};

/// What an acquisition asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The time to live that the nodes were asked for.
    pub ttl: Duration,
    /// The least validity with which the lock is of use. A grant with less is [`Failure::Expired`].
    pub min_validity: Duration,
}

/// A node's vote on an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireVote {
    /// Ours on this node, with its fencing number.
    Granted {
        /// The fencing number.
        fence: u64,
    },
    /// Held by another owner.
    Held {
        /// How long its key lives yet; `None` for a key that does not expire.
        remaining: Option<Duration>,
    },
    /// No answer, or none that counts.
    NoAnswer,
}

/// A node's vote on a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfirmVote {
    /// The number is the node's own, and the key ours.
    Confirmed,
    /// Not ours any more, or the node has seen a higher number.
    Refused {
        /// The node's fencing number.
        fence: u64,
    },
    /// No answer, or none that counts.
    NoAnswer,
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
        fence: u64,
        /// Whom to ask.
        nodes: Vec<usize>,
    },
    /// The lock is ours.
    Granted {
        /// The fencing token.
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
///    that refuses with a higher number allows one more round, with that number plus one.
///
/// A confirm counts only if the node still holds the key for this very attempt. Without that, two attempts could confirm
/// one number; with "or it is what I told you" in place of it, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    terms: Terms,
    nodes: Vec<Ballot>,
    phase: Phase,
}

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ballot {
    Open,
    Granted { fence: u64, confirm: Confirm },
    Held { remaining: Option<Duration> },
    NoAnswer,
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
    Confirming { round: u8, fence: u64 },
    Decided,
}

/// Rounds of confirmation before an attempt gives up.
const MAX_ROUNDS: u8 = 2;

impl Acquisition {
    /// An attempt on `nodes` nodes, before any vote.
    #[must_use]
    pub fn new(nodes: usize, terms: Terms) -> Self {
        Self { terms, nodes: vec![Ballot::Open; nodes], phase: Phase::Gathering }
    }

    /// Takes a node's vote on the acquire, `elapsed` after the attempt's clock was started.
    pub fn acquire_vote(&mut self, node: usize, vote: AcquireVote, elapsed: Duration) -> Step {
        let Some(ballot @ Ballot::Open) = self.nodes.get_mut(node) else { return Step::Wait };
        *ballot = match vote {
            AcquireVote::Granted { fence } => Ballot::Granted { fence, confirm: Confirm::Open },
            AcquireVote::Held { remaining } => Ballot::Held { remaining },
            AcquireVote::NoAnswer => Ballot::NoAnswer,
        };
        match (self.phase, vote) {
            (Phase::Gathering, _) => self.count_grants(elapsed),
            // A late grant joins the round that is under way: it may be the one that completes the majority.
            (Phase::Confirming { round, fence }, AcquireVote::Granted { .. }) => {
                Step::Confirm { round, fence, nodes: vec![node] }
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
        let Some(ballot) = self.nodes.get_mut(node) else { return Step::Wait };
        let Ballot::Granted { confirm: confirm @ Confirm::Open, .. } = ballot else { return Step::Wait };
        match vote {
            ConfirmVote::Confirmed => *confirm = Confirm::Confirmed,
            ConfirmVote::Refused { fence } => *confirm = Confirm::Refused { fence },
            ConfirmVote::NoAnswer => *ballot = Ballot::NoAnswer,
        }
        self.count_confirms(elapsed)
    }

    fn count_grants(&mut self, elapsed: Duration) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|ballot| matches!(ballot, Ballot::Open));
        let grants: Vec<u64> = self.grants().map(|(_, fence, _)| fence).collect();
        if grants.len() < quorum {
            return if grants.len() + open < quorum { self.fail_when_classified() } else { Step::Wait };
        }
        let agreed = |fence: &u64| grants.iter().filter(|other| *other == fence).count() >= quorum;
        if let Some(token) = grants.iter().copied().find(agreed) {
            return self.decide(token, elapsed);
        }
        self.propose(1, grants.into_iter().max().unwrap_or_default(), elapsed)
    }

    fn count_confirms(&mut self, elapsed: Duration) -> Step {
        let Phase::Confirming { round, fence } = self.phase else { return Step::Wait };
        let quorum = majority(self.nodes.len());
        let open = self.count(|ballot| matches!(ballot, Ballot::Open | Ballot::Granted { confirm: Confirm::Open, .. }));
        let confirmed = self.count(|ballot| matches!(ballot, Ballot::Granted { confirm: Confirm::Confirmed, .. }));
        if confirmed >= quorum {
            return self.decide(fence, elapsed);
        }
        if confirmed + open >= quorum {
            return Step::Wait;
        }
        let higher = self.grants().filter_map(|(_, _, confirm)| match confirm {
            Confirm::Refused { fence: seen } if seen > fence => Some(seen),
            _ => None,
        });
        match higher.max() {
            Some(seen) if round < MAX_ROUNDS && self.grants().count() >= quorum => {
                self.propose(round + 1, seen + 1, elapsed)
            }
            _ => self.fail_when_classified(),
        }
    }

    fn propose(&mut self, round: u8, fence: u64, elapsed: Duration) -> Step {
        if validity(self.terms.ttl, elapsed).is_none() {
            return self.fail(Failure::Expired);
        }
        self.phase = Phase::Confirming { round, fence };
        for ballot in &mut self.nodes {
            if let Ballot::Granted { confirm, .. } = ballot {
                *confirm = Confirm::Open;
            }
        }
        Step::Confirm { round, fence, nodes: self.grants().map(|(node, ..)| node).collect() }
    }

    fn decide(&mut self, token: u64, elapsed: Duration) -> Step {
        match validity(self.terms.ttl, elapsed) {
            Some(validity) if validity >= self.terms.min_validity => {
                self.phase = Phase::Decided;
                Step::Granted { token, validity }
            }
            _ => self.fail(Failure::Expired),
        }
    }

    /// Fails if the votes tell why; waits for more of them while they do not.
    fn fail_when_classified(&mut self) -> Step {
        let quorum = majority(self.nodes.len());
        let open = self.count(|ballot| matches!(ballot, Ballot::Open));
        let answered = self.count(|ballot| matches!(ballot, Ballot::Granted { .. } | Ballot::Held { .. }));
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
            .filter_map(|ballot| match ballot {
                Ballot::Granted { .. } => Some(Duration::ZERO),
                Ballot::Held { remaining } => *remaining,
                Ballot::Open | Ballot::NoAnswer => None,
            })
            .collect();
        times.sort_unstable();
        times.get(majority(self.nodes.len()) - 1).copied()
    }

    fn count(&self, wanted: impl Fn(&Ballot) -> bool) -> usize {
        self.nodes.iter().filter(|ballot| wanted(ballot)).count()
    }

    fn grants(&self) -> impl Iterator<Item = (usize, u64, Confirm)> + '_ {
        self.nodes.iter().enumerate().filter_map(|(node, ballot)| match ballot {
            Ballot::Granted { fence, confirm } => Some((node, *fence, *confirm)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const NOW: Duration = ms(1);

    fn attempt(nodes: usize) -> Acquisition {
        Acquisition::new(nodes, Terms { ttl: ms(1000), min_validity: Duration::ZERO })
    }

    fn granted(fence: u64) -> AcquireVote {
        AcquireVote::Granted { fence }
    }

    fn held(remaining: u64) -> AcquireVote {
        AcquireVote::Held { remaining: Some(ms(remaining)) }
    }

    #[test]
    fn a_majority_that_agrees_decides_with_its_last_vote() {
        let mut attempt = attempt(5);
        assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
        assert_eq!(attempt.acquire_vote(4, AcquireVote::NoAnswer, NOW), Step::Wait);
        assert_eq!(attempt.acquire_vote(1, granted(7), NOW), Step::Wait);
        assert_eq!(attempt.acquire_vote(3, granted(7), NOW), Step::Granted { token: 7, validity: ms(987) });
        assert_eq!(attempt.acquire_vote(2, granted(7), NOW), Step::Wait, "a straggler changes nothing");
    }

    #[test]
    fn the_quorum_is_a_whole_majority_of_all_nodes() {
        assert_eq!([1, 2, 3, 4, 5, 7].map(majority), [1, 2, 2, 3, 3, 4]);
        let mut attempt = attempt(5);
        for node in [0, 1, 2] {
            assert_eq!(
                attempt.acquire_vote(node, AcquireVote::NoAnswer, NOW),
                [Step::Wait, Step::Wait, Step::Failed(Failure::NoQuorum)][node]
            );
        }
        assert_eq!(attempt.acquire_vote(3, granted(1), NOW), Step::Wait, "two grants of two answers are no majority");
    }

    #[test]
    fn a_vote_counts_once() {
        let mut attempt = attempt(3);
        assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
        assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
        assert_eq!(attempt.acquire_vote(9, granted(7), NOW), Step::Wait, "and a node that is none, never");
    }

    #[test]
    fn nodes_that_disagree_are_asked_to_confirm_the_largest() {
        let mut attempt = attempt(5);
        attempt.acquire_vote(0, granted(1), NOW);
        attempt.acquire_vote(1, granted(2), NOW);
        assert_eq!(
            attempt.acquire_vote(2, granted(3), NOW),
            Step::Confirm { round: 1, fence: 3, nodes: vec![0, 1, 2] }
        );
        assert_eq!(attempt.acquire_vote(3, granted(3), NOW), Step::Confirm { round: 1, fence: 3, nodes: vec![3] });
        attempt.confirm_vote(0, 1, ConfirmVote::Confirmed, NOW);
        attempt.confirm_vote(3, 1, ConfirmVote::Confirmed, NOW);
        assert_eq!(attempt.confirm_vote(3, 1, ConfirmVote::Confirmed, NOW), Step::Wait, "a vote counts once");
        assert_eq!(
            attempt.confirm_vote(2, 1, ConfirmVote::Confirmed, NOW),
            Step::Granted { token: 3, validity: ms(987) }
        );
    }

    #[test]
    fn a_higher_number_allows_one_more_round_and_no_third() {
        let mut attempt = attempt(3);
        attempt.acquire_vote(0, granted(1), NOW);
        attempt.acquire_vote(1, granted(2), NOW);
        attempt.acquire_vote(2, AcquireVote::NoAnswer, NOW);
        let again = attempt.confirm_vote(0, 1, ConfirmVote::Refused { fence: 8 }, NOW);
        assert_eq!(again, Step::Confirm { round: 2, fence: 9, nodes: vec![0, 1] });
        assert_eq!(attempt.confirm_vote(1, 1, ConfirmVote::Confirmed, NOW), Step::Wait, "of the first round");
        attempt.confirm_vote(1, 2, ConfirmVote::Confirmed, NOW);
        let mut refused = attempt.clone();
        assert_eq!(
            attempt.confirm_vote(0, 2, ConfirmVote::Confirmed, NOW),
            Step::Granted { token: 9, validity: ms(987) }
        );
        let failed = refused.confirm_vote(0, 2, ConfirmVote::Refused { fence: 10 }, NOW);
        assert_eq!(failed, Step::Failed(Failure::Contended { free_in: Some(Duration::ZERO) }));
    }

    #[test]
    fn a_refusal_without_a_higher_number_is_the_end() {
        let mut attempt = attempt(3);
        attempt.acquire_vote(0, granted(1), NOW);
        attempt.acquire_vote(1, granted(2), NOW);
        attempt.acquire_vote(2, AcquireVote::NoAnswer, NOW);
        let lost = attempt.confirm_vote(0, 1, ConfirmVote::Refused { fence: 1 }, NOW);
        assert_eq!(lost, Step::Failed(Failure::Contended { free_in: Some(Duration::ZERO) }));
    }

    #[test]
    fn contended_and_no_quorum_are_told_apart() {
        let mut contended = attempt(5);
        contended.acquire_vote(0, held(300), NOW);
        contended.acquire_vote(1, held(200), NOW);
        let verdict = contended.acquire_vote(2, held(400), NOW);
        assert_eq!(verdict, Step::Failed(Failure::Contended { free_in: Some(ms(400)) }), "with the deciding vote");

        let mut open = attempt(5);
        open.acquire_vote(0, held(300), NOW);
        open.acquire_vote(1, AcquireVote::NoAnswer, NOW);
        assert_eq!(open.acquire_vote(2, AcquireVote::NoAnswer, NOW), Step::Wait, "could still be either");
        let mut no_quorum = open.clone();
        assert_eq!(no_quorum.acquire_vote(3, AcquireVote::NoAnswer, NOW), Step::Failed(Failure::NoQuorum));
        assert_eq!(open.acquire_vote(3, granted(1), NOW), Step::Wait);
        assert_eq!(open.acquire_vote(4, granted(1), NOW), Step::Failed(Failure::Contended { free_in: Some(ms(300)) }));
    }

    #[test]
    fn a_split_vote_is_contended() {
        let mut attempt = attempt(3);
        attempt.acquire_vote(0, granted(1), NOW);
        attempt.acquire_vote(1, held(900), NOW);
        assert_eq!(
            attempt.acquire_vote(2, held(800), NOW),
            Step::Failed(Failure::Contended { free_in: Some(ms(800)) })
        );
    }

    #[test]
    fn a_key_without_an_end_gives_no_hint() {
        let mut attempt = attempt(1);
        let verdict = attempt.acquire_vote(0, AcquireVote::Held { remaining: None }, NOW);
        assert_eq!(verdict, Step::Failed(Failure::Contended { free_in: None }));
    }

    #[test]
    fn a_grant_that_came_too_late_is_expired() {
        let mut late = attempt(1);
        assert_eq!(late.acquire_vote(0, granted(1), ms(988)), Step::Failed(Failure::Expired));
        let mut short = Acquisition::new(1, Terms { ttl: ms(1000), min_validity: ms(500) });
        assert_eq!(short.acquire_vote(0, granted(1), ms(489)), Step::Failed(Failure::Expired));
    }
}
