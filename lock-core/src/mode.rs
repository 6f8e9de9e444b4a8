use std::fmt;

/// What a lock allows beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing: one holder. This is what [`LockManager::lock`](crate::LockManager::lock) takes.
    #[default]
    Write,
    /// Other readers: see [`LockManager::read`](crate::LockManager::read).
    Read,
}

impl Mode {
    pub(crate) fn is_read(self) -> bool {
        self == Self::Read
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}
