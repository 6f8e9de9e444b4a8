use std::fmt;
use std::time::Duration;

use super::limits::check_number;
use super::{LockKeys, NodeError};
use crate::random::{Epoch, OwnerId};

/// What a node is asked about locks, in one request that changes nothing.
#[derive(Clone, Debug)]
pub struct Look {
    /// The keys of the locks, all of one keyspace; at least one, and at most 128.
    pub keys: Vec<LockKeys>,
    /// The epoch that the node has to be in, as for a [`Request`](super::Request): a majority may be counted of such replies.
    /// `None` for a reply from whatever the node has, even in quarantine.
    pub epoch: Option<Epoch>,
}

/// What a node has of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// What the lock key has; `None` if there is none. That of [`OwnerId::NOBODY`] for a moment after an eviction.
    pub holder: Option<Holder>,
    /// How much longer it is held. `None` if it is not, or the key does not expire.
    pub remaining: Option<Duration>,
    /// Its fence: the highest token that the node has assigned to any lock with the same fence.
    pub fence: u64,
    /// How many managers wait in its queue.
    pub waiters: u32,
    /// The readers that hold it, if they do: those that live longest, and at most 1024.
    pub readers: Vec<Reader>,
    /// The owners that were [evicted](super::LockNode::evict) and cannot have it again.
    pub evicted: Vec<OwnerId>,
}

impl LockState {
    /// The state, unless a number in it is beyond 2^53 - 1: no node counts that far. A lock that nobody has for a moment has no holder, and
    /// a remaining time.
    pub(crate) fn check(self) -> Result<Self, NodeError> {
        // What a node says is not trusted: beyond that, a token would not fit the JSON numbers and SQL integers of users.
        check_number(self.fence, "as a fence")?;
        Ok(Self { holder: self.holder.filter(|holder| *holder != Holder::Owner(OwnerId::NOBODY)), ..self })
    }

    /// In what time it is free, if nobody releases it: at once, or in a moment after an eviction. `None` if its key does not expire.
    pub(crate) fn free_in(&self) -> Option<Duration> {
        self.remaining.or_else(|| self.holder.is_none().then_some(Duration::ZERO))
    }
}

/// One of the readers that hold a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// Its owner id.
    pub owner: OwnerId,
    /// How much longer it holds the lock, unless it is renewed.
    pub remaining: Duration,
}

/// Without the owner id: a reader of a log could release the lock with it.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({}, {:?})", Holder::Owner(self.owner).tag(), self.remaining)
    }
}

/// What a lock key has.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A lock of this library, held under this owner id.
    Owner(OwnerId),
    /// Readers: the value is the marker of a lock that readers hold.
    Readers,
    /// A stranger's: the value is not one that this library writes.
    Stranger(Vec<u8>),
    /// Something else than a string, so it is nobody's lock.
    NotALock,
}

impl Holder {
    /// The holder whose value a lock key has.
    pub fn from_value(value: &[u8]) -> Self {
        if value == OwnerId::SHARED.as_bytes() {
            return Self::Readers;
        }
        OwnerId::parse(value).map_or_else(|| Self::Stranger(value.to_vec()), Self::Owner)
    }

    /// The value of the lock key; `None` for something that is not a string.
    pub fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::Owner(owner) => Some(owner.value().to_vec()),
            Self::Readers => Some(OwnerId::SHARED.into()),
            Self::Stranger(value) => Some(value.clone()),
            Self::NotALock => None,
        }
    }

    /// The owner id of a lock of this library.
    pub fn owner(&self) -> Option<OwnerId> {
        match self {
            Self::Owner(owner) => Some(*owner),
            Self::Readers | Self::Stranger(_) | Self::NotALock => None,
        }
    }

    /// What people are shown instead of the value.
    pub fn tag(&self) -> HolderTag {
        HolderTag::of(&self.value().unwrap_or_default())
    }
}

/// Without the owner id: a reader of a log could release the lock with it.
impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(_) => write!(f, "Owner({})", self.tag()),
            Self::Readers => write!(f, "Readers"),
            Self::Stranger(_) => write!(f, "Stranger({})", self.tag()),
            Self::NotALock => f.write_str("NotALock"),
        }
    }
}

/// Eight hexadecimal digits that tell the holders of a lock apart, without naming them: a hash of what the lock key has.
///
/// Every grant has another tag, also in the same process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderTag(u32);

impl HolderTag {
    /// The 32-bit FNV-1a hash (Fowler, Noll, Vo).
    fn of(value: &[u8]) -> Self {
        Self(value.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
    }
}

impl fmt::Display for HolderTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for HolderTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How long a node grants a lock to nobody after it evicted its holder: longer than the nodes' last word lives in the holder's process
/// ([`WORD_TTL`](crate::quorum::WORD_TTL)). Until then, further callers there may get the lock without asking the nodes.
pub const EVICTION_GAP: Duration = Duration::from_millis(125);

/// Whom a node is asked to evict from a lock.
///
/// Below, `L` is the lock key, and `F` its fence. A node carries it out as one step, and only if it is in this epoch and
///
/// - nobody holds `L` but `holders`: readers all of them, or [`OwnerId::NOBODY`](crate::node::OwnerId::NOBODY). Otherwise
///   [`Eviction::Superseded`]: a successor stays.
/// - `F < token`. Otherwise [`Eviction::Refused`].
///
/// Then `F` becomes `token`, and `L` belongs to [`OwnerId::NOBODY`](crate::node::OwnerId::NOBODY) for [`EVICTION_GAP`], if one of
/// `holders` had it; the first waiters are woken, and learn from the reply to their [`Acquire`](super::Operation::Acquire) when it will be
/// free. For `barred_for` from now on, the node grants `L` to none of `holders` that is an owner: neither an [`Acquire`](super::Operation::Acquire), which is answered with
/// [`Held`](super::Reply::Held) and a remaining time of zero, nor a [`Replace`](super::Operation::Replace), which is answered with
/// [`Gone`](super::Reply::Gone). What bars them is called their *tombstone*, and is written before anything else: what cannot be barred
/// is not evicted.
#[derive(Clone, Debug)]
pub struct Evict {
    /// The keys of the lock.
    pub keys: LockKeys,
    /// The epoch in which the node was admitted.
    pub epoch: Epoch,
    /// Whom to evict, each once. May be empty: then only the fence is raised, if the lock is free.
    pub holders: Vec<Holder>,
    /// What the fence becomes: larger than every token of the holders, and smaller than the tokens of later ones.
    pub token: u64,
    /// How long the owners are barred: longer than a lock may live that they have elsewhere.
    pub barred_for: Duration,
}

/// A node's reply to an [`Evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// None of the holders has the lock on this node, or can have it again.
    Evicted {
        /// Whether one of them had it. Then nobody has it for [`EVICTION_GAP`].
        deleted: bool,
    },
    /// Somebody else has the lock. Nothing changed.
    Superseded,
    /// The node has assigned the token, or a higher one. Nothing changed.
    Refused {
        /// Its fence.
        fence: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_id_is_not_shown() {
        let owner = OwnerId::from_bits(0x1bea_0f23);
        let holder = Holder::from_value(owner.to_string().as_bytes());
        assert_eq!(holder, Holder::Owner(owner));
        let shown = format!("{holder:?} {}", holder.tag());
        assert!(!shown.contains("1bea0f23"), "{shown}");
        assert_eq!(holder.tag().to_string().len(), 8);
        assert_ne!(holder.tag(), Holder::Owner(OwnerId::from_bits(2)).tag());
    }

    #[test]
    fn a_stranger_is_kept_as_it_is() {
        for value in [&b""[..], b"a value", b"\xff\n", b"lock-shared-not"] {
            assert_eq!(Holder::from_value(value), Holder::Stranger(value.to_vec()));
            assert_eq!(Holder::from_value(value).value().as_deref(), Some(value));
        }
    }
}
