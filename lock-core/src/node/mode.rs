use crate::kind::Kind;
use crate::limits::MAX_PERMITS;

/// How one key of a node is locked: as the [`Kind`] says that a caller chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one owner alone.
    #[default]
    Write,
    /// By any number of readers.
    Read,
    /// By one owner alone. The key is that of a slot.
    Permit {
        /// How many slots the resource has, as far as the caller knows.
        of: u32,
    },
}

impl Mode {
    pub(crate) fn is_read(self) -> bool {
        self == Self::Read
    }

    /// How many slots the caller may choose from: at least the one that it asks for.
    pub(crate) fn permits(self, slot: u32) -> u32 {
        match self {
            Self::Write | Self::Read => slot.saturating_add(1),
            Self::Permit { of } => of,
        }
        .min(MAX_PERMITS)
    }
}

impl From<Kind> for Mode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Write => Self::Write,
            Kind::Permit { of } => Self::Permit { of },
            Kind::Read => Self::Read,
        }
    }
}
