use super::KeyVote;

/// A node's vote on a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVote {
    /// The node held the key, and deleted it.
    Released,
    /// The node did not hold the key.
    NotOwner,
    /// No reply, or none that counts.
    NoReply,
}

impl KeyVote for ReleaseVote {
    fn has_key(self) -> Option<bool> {
        match self {
            Self::Released => Some(true),
            Self::NotOwner => Some(false),
            Self::NoReply => None,
        }
    }
}
