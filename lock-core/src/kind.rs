use std::fmt;

use crate::limits::MAX_PERMITS;

/// What a lock allows beside it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::Kind;
///
/// # let locks = lock_core::LockManager::in_memory();
/// let report = locks.lock("report").acquire().await?;
/// assert_eq!(report.kind(), Kind::Write);
///
/// // The same as `locks.permits("export", 3)`:
/// let export = locks.lock("export").kind(Kind::Permit { of: 3 }).acquire().await?;
/// assert_eq!(export.kind(), Kind::Permit { of: 3 });
/// # drop((report, export));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing: one holder. This is what [`LockManager::lock`](crate::LockManager::lock) takes.
    #[default]
    Write,
    /// Other readers, but no writer: see [`LockManager::read`](crate::LockManager::read).
    Read,
    /// Other holders of a permit, each with a slot of its own: see [`LockManager::permits`](crate::LockManager::permits).
    Permit {
        /// How many permits the resource has: from 1 to [`MAX_PERMITS`](crate::limits::MAX_PERMITS).
        of: u32,
    },
}

impl Kind {
    pub(crate) fn is_read(self) -> bool {
        self == Self::Read
    }

    /// Whether slots of a resource are locked, and not the resource itself: the two know nothing of each other.
    pub(crate) fn has_slots(self) -> bool {
        match self {
            Self::Write | Self::Read => false,
            Self::Permit { .. } => true,
        }
    }

    /// Whether a lock of this kind can be on this slot: on one below the number of permits, or on none.
    pub(crate) fn allows_slot(self, slot: Option<u32>) -> bool {
        match self {
            Self::Write | Self::Read => slot.is_none(),
            Self::Permit { of } => slot.is_some_and(|slot| slot < of),
        }
    }

    /// From how many slots the caller of a request for this one may choose: at least that one.
    pub(crate) fn permits(self, slot: u32) -> u32 {
        match self {
            Self::Write | Self::Read => slot.saturating_add(1),
            Self::Permit { of } => of,
        }
        .min(MAX_PERMITS)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write => f.write_str("write"),
            Self::Read => f.write_str("read"),
            Self::Permit { of } => write!(f, "permit of {of}"),
        }
    }
}
