use std::fmt;

/// What a [`Trial`](super::Trial) asks of a service. Each has schedules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Question {
    /// One request is held at a step, and the others run to their ends, or until they wait for it. Finds a missing lock, one that is too narrow, and one
    /// with the wrong name.
    Race,
    /// The client of one request hangs up at a step: its future is dropped, as a server does. Then the others. Finds work that is left half done.
    HangUp,
    /// One request loses its lock at a step, and is told. Then the others, and it goes on. Finds work that goes on without its lock.
    Lost,
    /// One request stands still at a step for longer than its lock lives, and has noticed nothing when it goes on. Finds a missing fence.
    Frozen,
    /// As [`Race`](Self::Race), with locks that exclude nobody: whether a lock is needed at all. What it finds breaks nothing.
    Unlocked,
}

impl Question {
    /// All questions, in the order in which they are asked.
    pub const ALL: [Self; 5] = [Self::Race, Self::HangUp, Self::Lost, Self::Frozen, Self::Unlocked];

    pub(super) fn is_about_locks(self) -> bool {
        matches!(self, Self::Lost | Self::Frozen | Self::Unlocked)
    }

    /// Whether requests are dropped.
    pub(super) fn drops_requests(self) -> bool {
        matches!(self, Self::HangUp | Self::Lost)
    }

    pub(super) fn is_about_interleaving(self) -> bool {
        matches!(self, Self::Race | Self::Unlocked)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Race => "race",
            Self::HangUp => "hang-up",
            Self::Lost => "lost",
            Self::Frozen => "frozen",
            Self::Unlocked => "unlocked",
        })
    }
}
