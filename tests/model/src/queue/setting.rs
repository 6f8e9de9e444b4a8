use std::fmt;

use super::state::PROCESSES;

/// The rules, or one of the nearest that are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRules {
    /// As they are shipped.
    Shipped,
    /// A process that a majority of nodes called takes that for the lock.
    CallIsAVote,
    /// A release deletes the key of whichever attempt of its process.
    ReleaseByWaiter,
    /// A turn never lapses.
    TurnWithoutEnd,
    /// All attempts of a process use one owner id.
    OneOwner,
    /// Who is offered the free key stays the first in line.
    OfferKeepsPlace,
}

/// What a model of the queue is of.
#[derive(Clone, Debug)]
pub struct QueueSetting {
    /// The rules.
    pub rules: QueueRules,
    /// How many attempts each process may make; one that makes none is not there.
    pub tries: [usize; PROCESSES],
    /// Whether keys end only when the attempt that set them is over, for which validity stands. Else they end at any step.
    pub valid: bool,
    /// Whether calls are followed.
    pub calls: bool,
    /// How many acquires and confirms are executed of attempts that are over.
    pub late: u8,
    /// How many places in queues are lost.
    pub lost: u8,
    /// No run is followed in which a node's number becomes larger than this.
    pub highest: u8,
}

impl QueueSetting {
    /// Processes with so many attempts each.
    #[must_use]
    pub const fn new(tries: [usize; PROCESSES]) -> Self {
        let rules = QueueRules::Shipped;
        Self { rules, tries, valid: true, calls: false, late: 0, lost: 0, highest: 2 }
    }

    /// What takes longer: places that are lost, messages that are executed late, keys that end at any step; and three processes.
    #[must_use]
    pub fn long() -> Vec<Self> {
        let losing = Self { late: 1, lost: 1, ..Self::new([1, 1, 0]) };
        let any_step = Self { valid: false, ..losing.clone() };
        let again = Self { lost: 1, ..Self::new([2, 1, 0]) };
        vec![losing, any_step, again, Self::new([1, 2, 0]), Self { highest: 1, ..Self::new([1, 1, 1]) }]
    }

    /// The same under other rules.
    #[must_use]
    pub const fn under(self, rules: QueueRules) -> Self {
        Self { rules, ..self }
    }
}

impl fmt::Display for QueueSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tries, valid, calls, late, lost, highest, .. } = self;
        write!(
            f,
            "queue: processes with {tries:?} attempts, {late} executed late, {lost} places lost, F to {highest}, "
        )?;
        f.write_str(if *valid { "keys end when their attempt is over" } else { "keys end at any step" })?;
        f.write_str(if *calls { ", calls followed" } else { "" })
    }
}
