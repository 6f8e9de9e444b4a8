use std::fmt;

/// A mutant of the rules for sets: one rule is broken, and a property must be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetsMutant {
    /// Locks are taken in the order in which they are written.
    Unsorted,
    /// Locks behind the one that is waited for are kept.
    KeepsBehind,
}

/// The callers of a model of sets.
#[derive(Clone, Debug)]
pub struct SetsSetting {
    /// The mutant to explore instead of the rules.
    pub mutant: Option<SetsMutant>,
    /// The locks of each caller, as written: letters from `a` on.
    pub written: &'static [&'static str],
    /// How many locks are lost while their set waits.
    pub losses: u8,
}

impl SetsSetting {
    /// Callers that want these locks, with one loss.
    #[must_use]
    pub const fn new(written: &'static [&'static str]) -> Self {
        Self { mutant: None, written, losses: 1 }
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: SetsMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }
}

impl fmt::Display for SetsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sets: {:?}, {} losses", self.written, self.losses)
    }
}
