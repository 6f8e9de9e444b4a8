use std::time::Duration;

use thiserror::Error;

use crate::error::{LockError, NodeVote};
use crate::limits::OutOfRange;

/// Why a lease was not delegated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DelegateError {
    /// The lease has ended.
    #[error(transparent)]
    Lost(#[from] LockError),
    /// The lease was adopted. Only the holder of the lock delegates.
    #[error("the lease on {resource:?} was delegated to this service, and only the holder of the lock can delegate it")]
    Adopted {
        /// The resource.
        resource: String,
    },
    /// The lock is being downgraded. It can be delegated to read when that is done.
    #[error("{resource:?} is being downgraded, and can be delegated again when it is read")]
    Downgrading {
        /// The resource.
        resource: String,
    },
    /// `expires_in` is out of range.
    #[error(transparent)]
    ExpiresIn(#[from] OutOfRange),
    /// The audience is not one.
    #[error(transparent)]
    Audience(#[from] InvalidAudience),
    /// So few clocks of masters are known that it cannot be said when the delegation ends. A later attempt may succeed.
    #[error(
        "the clocks of too few masters are known, so it cannot be said when a delegation of {resource:?} ends; try again"
    )]
    NoClock {
        /// The resource.
        resource: String,
    },
}

/// A text is not the name of an audience.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("an audience is 1 to 128 bytes, got {} bytes", .audience.len())]
pub struct InvalidAudience {
    /// The text.
    pub audience: String,
}

impl InvalidAudience {
    pub(crate) fn check(audience: &str) -> Result<(), Self> {
        let is_valid = (1..=super::MAX_AUDIENCE_LEN).contains(&audience.len());
        if is_valid { Ok(()) } else { Err(Self { audience: audience.to_owned() }) }
    }
}

/// Why a delegation was not adopted. None of these is a reason to acquire the lock instead: its holder may be at work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The text is not one that [`Delegation::as_str`](super::Delegation::as_str) returned, or is of another version.
    #[error("the text is not a delegation, or one of another version of this library")]
    Malformed,
    /// It is of a lock on another set of masters, as far as this manager knows. If it missed that its own was formed again, it finds out now.
    #[error("the delegation is of a lock on the set of masters {theirs}, and this service uses the set {ours}")]
    OtherSet {
        /// The id of that set.
        theirs: String,
        /// The id of the set of this manager.
        ours: String,
    },
    /// It is for another service.
    #[error("the delegation is for the audience {theirs:?}, and this service is {}", ours.as_deref().unwrap_or("none"))]
    OtherAudience {
        /// Whom it is for.
        theirs: String,
        /// The [`audience`](crate::LockManagerBuilder::audience) of this manager.
        ours: Option<String>,
    },
    /// It is of a lock on another resource than the one of the work, or of a permit that the work cannot have.
    #[error("the delegation is of {theirs:?}, and the work is on {ours:?}")]
    OtherResource {
        /// The resource that was delegated, with its slot if it is a permit.
        theirs: String,
        /// The resource of the work.
        ours: String,
    },
    /// The lock is read, and the work writes.
    #[error("the delegation of {resource:?} is to read, and the work writes")]
    NotToWrite {
        /// The resource.
        resource: String,
    },
    /// Its time is over.
    #[error("the delegation of {resource:?} expired {ago:?} ago")]
    Expired {
        /// The resource.
        resource: String,
        /// How long ago.
        ago: Duration,
    },
    /// The holder that made it does not have the lock any more, or nobody who has the lock made it.
    #[error(
        "no majority of the masters holds {resource:?} for the maker of the delegation: {}",
        crate::error::list(votes)
    )]
    Refused {
        /// The resource.
        resource: String,
        /// What the masters replied.
        votes: Vec<NodeVote>,
    },
    /// Too few masters replied to know. A later attempt may succeed.
    #[error("no majority of the masters replied about {resource:?}: {}", crate::error::list(votes))]
    NoQuorum {
        /// The resource.
        resource: String,
        /// What the masters replied.
        votes: Vec<NodeVote>,
    },
    /// The manager was closed.
    #[error("the lock manager is shutting down (resource {resource:?})")]
    ShuttingDown {
        /// The resource.
        resource: String,
    },
}
