use crate::kind::Kind;

/// How one key of a node is locked. Callers choose a [`Kind`]; a permit is, at the nodes, the key of its slot locked to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one owner alone.
    #[default]
    Write,
    /// By any number of readers.
    Read,
}

impl Mode {
    pub(crate) fn is_read(self) -> bool {
        self == Self::Read
    }
}

impl From<Kind> for Mode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Write | Kind::Permit { .. } => Self::Write,
            Kind::Read => Self::Read,
        }
    }
}
