use std::hash::{Hash, Hasher};
use std::time::Duration;

use lock_core::quorum::{Acquisition, Step, Tally, Terms, Verdict};

use super::state::{NODES, Vote};

/// The shipped quorum code that decides for a client, and the votes it has received.
///
/// The votes are not part of its identity: two deciders in the same state are equal, however they got there. They are kept
/// for the symmetry reduction, which renames the nodes by passing the same votes to a new decider, because the state of the
/// shipped code is private.
#[derive(Clone, Debug)]
pub struct Decider {
    shipped: Shipped,
    ttl: u8,
    tokens: u8,
    received: Vec<(usize, Vote, u8)>,
    proposed: bool,
}

/// The shipped code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shipped {
    Acquisition(Acquisition),
    Renewal(Tally),
}

/// What the shipped code decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Of an acquisition.
    Acquisition(Step),
    /// Of a renewal.
    Renewal(Verdict),
}

impl PartialEq for Decider {
    fn eq(&self, other: &Self) -> bool {
        self.shipped == other.shipped
    }
}

impl Eq for Decider {}

impl Hash for Decider {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shipped.hash(state);
    }
}

fn ticks(count: u8) -> Duration {
    Duration::from_secs(count.into())
}

impl Decider {
    /// For an attempt whose keys live for `ttl` ticks, and which reserves `tokens` tokens.
    #[must_use]
    pub fn of_attempt(ttl: u8, tokens: u8) -> Self {
        let terms = Terms { ttl: ticks(ttl.max(1)), min_validity: Duration::ZERO, tokens: tokens.into() };
        let shipped = Shipped::Acquisition(Acquisition::new(NODES, terms));
        Self { shipped, ttl, tokens, received: Vec::new(), proposed: false }
    }

    /// For a round of renewal.
    #[must_use]
    pub fn of_renewal() -> Self {
        let shipped = Shipped::Renewal(Tally::new(NODES));
        Self { shipped, ttl: 0, tokens: 0, received: Vec::new(), proposed: false }
    }

    /// Counts a vote, `elapsed` ticks after the attempt began. Returns the decision that it leads to, if any.
    pub fn receive(&mut self, node: usize, vote: Vote, elapsed: u8) -> Option<Decision> {
        self.received.push((node, vote, elapsed));
        let step = match (&mut self.shipped, vote) {
            (Shipped::Acquisition(shipped), Vote::Acquire(vote)) => shipped.acquire_vote(node, vote, ticks(elapsed)),
            (Shipped::Acquisition(shipped), Vote::Confirm(round, vote)) => {
                shipped.confirm_vote(node, round, vote, ticks(elapsed))
            }
            (Shipped::Renewal(shipped), Vote::Extend(vote) | Vote::Downgrade(vote)) => {
                return shipped.vote(node, vote).map(Decision::Renewal);
            }
            _ => return None,
        };
        self.proposed |= matches!(step, Step::Confirm { .. });
        (step != Step::Wait).then_some(Decision::Acquisition(step))
    }

    /// The nodes that reported to a renewal that the key is gone.
    #[must_use]
    pub fn gone(&self) -> Vec<usize> {
        match &self.shipped {
            Shipped::Renewal(renewal) => renewal.gone().collect(),
            Shipped::Acquisition(_) => Vec::new(),
        }
    }

    /// Whether this decides a renewal.
    pub(super) fn is_renewal(&self) -> bool {
        matches!(self.shipped, Shipped::Renewal(_))
    }

    /// Whether this decides an attempt that has proposed no token.
    pub(super) fn is_gathering(&self) -> bool {
        !self.is_renewal() && !self.proposed
    }

    /// The last vote of a node, for sorting.
    pub(super) fn last_of(&self, node: usize) -> Option<Vote> {
        self.received.iter().rev().find(|(of, ..)| *of == node).map(|(_, vote, _)| *vote)
    }

    /// The same decider with the nodes renamed: node `order[i]` becomes node `i`.
    #[must_use]
    pub fn renamed(&self, order: [usize; NODES]) -> Self {
        let mut renamed = match &self.shipped {
            Shipped::Renewal(_) => Self::of_renewal(),
            Shipped::Acquisition(_) => Self::of_attempt(self.ttl, self.tokens),
        };
        for (node, vote, elapsed) in &self.received {
            if let Some(node) = order.iter().position(|old| old == node) {
                renamed.receive(node, *vote, *elapsed);
            }
        }
        renamed
    }
}
