use std::fmt;

use super::state::CLIENTS;

/// How many permits there are.
pub const PERMITS: usize = 2;

/// A mutant of the rules for permits: a property must be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitsMutant {
    /// There are no slots: each node counts the holders, and grants while they are fewer than the permits.
    Counted,
    /// The resource remembers one token for all slots.
    OneFence,
    /// Each slot has a queue of its own.
    QueuePerSlot,
}

/// The bounds of the model of permits.
#[derive(Clone, Debug)]
pub struct PermitsSetting {
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<PermitsMutant>,
    /// How many attempts each client may make. One without attempts is absent.
    pub attempts: [u8; CLIENTS],
}

impl PermitsSetting {
    /// Clients with these numbers of attempts.
    #[must_use]
    pub const fn new(attempts: [u8; CLIENTS]) -> Self {
        Self { mutant: None, attempts }
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: PermitsMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// The larger settings.
    #[must_use]
    pub fn long() -> Vec<Self> {
        vec![Self::new([2, 1, 2, 0]), Self::new([2, 2, 2, 0]), Self::new([1, 1, 1, 2])]
    }
}

impl fmt::Display for PermitsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permits: {PERMITS} of them, clients with {:?} attempts", self.attempts)
    }
}
