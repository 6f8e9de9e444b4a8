use std::fmt;

/// What the first holders have in the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairingStart {
    /// Each slot on all nodes.
    Everywhere,
    /// Each slot on two nodes: another one on each of two is free.
    Bare,
    /// Each slot on two nodes: on another one of two, a dead holder has it, for ever.
    Stuck,
    /// Each slot on one node or two: it is free on one, and a dead holder has both on another one.
    BareAndStuck,
}

impl PairingStart {
    /// Where a slot is free in the beginning, and where a dead holder has it: pairs of node and slot.
    pub(super) const fn exceptions(self) -> [&'static [(usize, usize)]; 2] {
        match self {
            Self::Everywhere => [&[], &[]],
            Self::Bare => [&[(0, 0), (1, 1)], &[]],
            Self::Stuck => [&[], &[(0, 0), (1, 1)]],
            Self::BareAndStuck => [&[(0, 0), (1, 1)], &[(2, 0), (2, 1)]],
        }
    }
}

/// The bounds of the model of the pairing.
#[derive(Clone, Copy, Debug)]
pub struct PairingSetting {
    /// What the first holders have.
    pub start: PairingStart,
    /// Whether one of those that wait may die.
    pub dies: bool,
    /// Whether the nodes follow the former rule, the mutant: a free slot is kept for one waiter, in the order of the releases.
    pub keeps: bool,
}

impl PairingSetting {
    /// Nobody dies.
    #[must_use]
    pub const fn new(start: PairingStart) -> Self {
        Self { start, dies: false, keeps: false }
    }

    /// The larger settings.
    #[must_use]
    pub fn long() -> Vec<Self> {
        let dying = |start| Self { dies: true, ..Self::new(start) };
        let starts = [PairingStart::BareAndStuck, PairingStart::Everywhere, PairingStart::Bare];
        starts.map(Self::new).into_iter().chain([dying(PairingStart::Stuck)]).collect()
    }
}

impl fmt::Display for PairingSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pairing: held {:?}", self.start)?;
        if self.dies { write!(f, ", one dies") } else { Ok(()) }
    }
}
