use std::hash::{Hash, Hasher};
use std::time::Duration;

use lock_core::quorum::{Acquisition, RenewalTally, RenewalVerdict, Step, Terms};

use super::state::{Answer, NODES};

/// What decides for a client: the shipped code, and the answers that it was given.
///
/// The answers are no part of what it is: two of them that came to the same by different ways are the same. They are kept so that
/// it can be told what it would be if the nodes had other names, without a look into it: the shipped code hears them again.
#[derive(Clone, Debug)]
pub struct Decider {
    shipped: Shipped,
    ttl: u8,
    tokens: u8,
    heard: Vec<(usize, Answer, u8)>,
    proposed: bool,
}

/// The shipped code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shipped {
    Acquisition(Acquisition),
    Renewal(RenewalTally),
}

/// What it decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Of an acquisition.
    Acquisition(Step),
    /// Of a renewal.
    Renewal(RenewalVerdict),
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
    /// For an attempt of which the keys live so many ticks, and that reserves so many tokens.
    #[must_use]
    pub fn of_attempt(ttl: u8, tokens: u8) -> Self {
        let terms = Terms { ttl: ticks(ttl.max(1)), min_validity: Duration::ZERO, tokens: tokens.into() };
        let shipped = Shipped::Acquisition(Acquisition::new(NODES, terms));
        Self { shipped, ttl, tokens, heard: Vec::new(), proposed: false }
    }

    /// For a round of renewal.
    #[must_use]
    pub fn of_renewal() -> Self {
        let shipped = Shipped::Renewal(RenewalTally::new(NODES));
        Self { shipped, ttl: 0, tokens: 0, heard: Vec::new(), proposed: false }
    }

    /// Takes an answer, so many ticks after it began. Says what that leads to, if to anything.
    pub fn hear(&mut self, node: usize, answer: Answer, elapsed: u8) -> Option<Decision> {
        self.heard.push((node, answer, elapsed));
        let step = match (&mut self.shipped, answer) {
            (Shipped::Acquisition(shipped), Answer::Acquire(vote)) => shipped.acquire_vote(node, vote, ticks(elapsed)),
            (Shipped::Acquisition(shipped), Answer::Confirm(round, vote)) => {
                shipped.confirm_vote(node, round, vote, ticks(elapsed))
            }
            (Shipped::Renewal(shipped), Answer::Extend(vote)) => {
                return shipped.vote(node, vote).map(Decision::Renewal);
            }
            _ => return None,
        };
        self.proposed |= matches!(step, Step::Confirm { .. });
        (step != Step::Wait).then_some(Decision::Acquisition(step))
    }

    /// The nodes that lost the key, as a renewal was told.
    #[must_use]
    pub fn gone(&self) -> Vec<usize> {
        match &self.shipped {
            Shipped::Renewal(renewal) => renewal.gone().collect(),
            Shipped::Acquisition(_) => Vec::new(),
        }
    }

    /// Whether it is of a renewal.
    pub(super) fn is_renewal(&self) -> bool {
        matches!(self.shipped, Shipped::Renewal(_))
    }

    /// Whether it is of an attempt that has proposed nothing yet.
    pub(super) fn is_gathering(&self) -> bool {
        !self.is_renewal() && !self.proposed
    }

    /// What was last heard of a node, for sorting.
    pub(super) fn last_of(&self, node: usize) -> Option<Answer> {
        self.heard.iter().rev().find(|(of, ..)| *of == node).map(|(_, answer, _)| *answer)
    }

    /// The same with the nodes renamed: what was at `order[i]` is at `i`.
    #[must_use]
    pub fn renamed(&self, order: [usize; NODES]) -> Self {
        let mut renamed = match &self.shipped {
            Shipped::Renewal(_) => Self::of_renewal(),
            Shipped::Acquisition(_) => Self::of_attempt(self.ttl, self.tokens),
        };
        for (node, answer, elapsed) in &self.heard {
            if let Some(node) = order.iter().position(|old| old == node) {
                renamed.hear(node, *answer, *elapsed);
            }
        }
        renamed
    }
}
