use std::fmt;

/// Some of the locks: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Locks(u8);

impl Locks {
    pub(super) fn contains(self, lock: u8) -> bool {
        self.0 & 1 << lock != 0
    }

    pub(super) fn insert(&mut self, lock: u8) {
        self.0 |= 1 << lock;
    }

    pub(super) fn remove(&mut self, lock: u8) {
        self.0 &= !(1 << lock);
    }
}

/// A state of the model of sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetsState {
    pub(super) callers: Vec<Caller>,
    /// How many locks were lost.
    pub(super) losses: u8,
}

/// A caller that wants a set of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) phase: Phase,
    pub(super) held: Locks,
}

/// What a caller is doing. Places are those in the order in which it takes its locks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It asks for all locks from a place on that it does not hold. Some requests were executed.
    Asking { from: usize, asked: Locks },
    /// It waits for the lock in this place.
    Waiting { at: usize },
    /// It has the whole set.
    Holding,
    /// It has released the set.
    Done,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Asking { from: 0, asked: Locks::default() }
    }
}

impl SetsState {
    pub(super) fn is_free(&self, lock: u8) -> bool {
        self.callers.iter().all(|caller| !caller.held.contains(lock))
    }

    pub(super) fn all_are_done(&self) -> bool {
        self.callers.iter().all(|caller| caller.phase == Phase::Done)
    }
}

impl fmt::Display for SetsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Caller { phase, held }) in self.callers.iter().enumerate() {
            let held: String = (b'a'..=b'h').filter(|name| held.contains(name - b'a')).map(char::from).collect();
            write!(f, "caller {index} holds {held:?}, {phase:?}; ")?;
        }
        Ok(())
    }
}
