//! The kinds of locks that a run mixes on the same names.

use lock_support::Dice;
use serde::Serialize;

use super::{QUICK_RESOURCE, TASKS};

/// A kind of lock, or a way to get one. The place for a further one: what has to know it does not compile without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// To write, alone.
    Write,
    /// To read, beside other readers.
    Read,
    /// To write, and then to read without a gap.
    Downgrade,
    /// Several locks, to read or to write.
    Set,
    /// One of the permits of a resource, to write what its slot protects.
    Permit,
    /// To write, or to read, through another service that adopts the lock.
    Delegate,
    /// The lock of a holder in another process, who delegated it.
    Adopt,
    /// To take the lock from its holder.
    Force,
}

impl Kind {
    pub(super) const ALL: [Self; 8] =
        [Self::Write, Self::Read, Self::Downgrade, Self::Set, Self::Permit, Self::Delegate, Self::Adopt, Self::Force];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Downgrade => "downgrade",
            Self::Set => "set",
            Self::Permit => "permit",
            Self::Delegate => "delegate",
            Self::Adopt => "adopt",
            Self::Force => "force",
        }
    }

    /// What a task of a service does next. Every other task mostly reads, so that there are always readers, and writers beside them.
    /// Those beyond [`TASKS`] take permits.
    ///
    /// The quick resource is only written, read and downgraded: nothing else is sure to end soon.
    pub(super) fn draw(dice: &mut Dice, resource: usize, task: usize) -> Self {
        if task >= TASKS {
            return Self::Permit;
        }
        let is_reader = !task.is_multiple_of(2);
        match dice.roll(100) {
            0..60 if is_reader => Self::Read,
            0..10 => Self::Read,
            10..25 => Self::Downgrade,
            60..78 if resource != QUICK_RESOURCE => Self::Set,
            78..94 if resource != QUICK_RESOURCE => Self::Delegate,
            _ => Self::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_tasks_take_is_drawn_and_the_quick_resource_is_never_held_for_long() {
        let mut dice = Dice::new(1);
        let mut drawn =
            |resource| (0..1_000).map(|draw| Kind::draw(&mut dice, resource, draw % TASKS)).collect::<Vec<_>>();
        let (quick, other) = (drawn(QUICK_RESOURCE), drawn(QUICK_RESOURCE + 1));
        for kind in [Kind::Write, Kind::Read, Kind::Downgrade] {
            assert!(quick.contains(&kind) && other.contains(&kind), "{kind:?}");
        }
        for kind in [Kind::Set, Kind::Delegate] {
            assert!(!quick.contains(&kind) && other.contains(&kind), "{kind:?}");
        }
        assert_eq!(Kind::draw(&mut dice, QUICK_RESOURCE + 1, TASKS), Kind::Permit);
    }
}
