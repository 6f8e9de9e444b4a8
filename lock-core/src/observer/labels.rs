//! How things ended: what events say, and the values of labels in metrics and spans.

use crate::error::{LockError, LossReason};

/// Defines an enum of which each variant has a name.
macro_rules! named {
    ($(#[$docs:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* #[doc = concat!("Named `", $label, "`.")] $variant,)*
        }

        impl $name {
            /// All names, in the order of the variants.
            #[cfg(feature = "metrics")]
            pub(super) const NAMES: &[&str] = &[$($label),*];

            /// Its name in metrics and spans.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

named! {
    /// How an acquisition ended.
    AcquireOutcome {
        /// The caller has the lock.
        Acquired = "acquired",
        /// Another owner had it until the wait was over, or too many callers waited for it already.
        Contended = "contended",
        /// Fewer than a majority of the nodes replied.
        NoQuorum = "no_quorum",
        /// It was granted so late that too little of its validity was left.
        Expired = "expired",
        /// The caller gave up: its future was dropped.
        Cancelled = "cancelled",
        /// The manager was closed.
        Closed = "closed",
        /// Any other error: of the resource's name, or of the options.
        Error = "error",
    }
}

impl AcquireOutcome {
    pub(super) fn of(error: Option<&LockError>) -> Self {
        match error {
            None => Self::Acquired,
            Some(LockError::Contended { .. } | LockError::QueueFull { .. }) => Self::Contended,
            Some(LockError::NoQuorum { .. }) => Self::NoQuorum,
            Some(LockError::Expired { .. }) => Self::Expired,
            Some(LockError::ShuttingDown { .. }) => Self::Closed,
            Some(_) => Self::Error,
        }
    }
}

named! {
    /// How a hold ended.
    HoldEnd {
        /// Its guard released it.
        Released = "released",
        /// It expired, or the nodes had lost it, or another lock of its set.
        Lost = "lost",
        /// It was held for `max_hold`.
        MaxHold = "max_hold",
        /// The grace of a shutdown ended.
        Revoked = "revoked",
    }
}

impl From<LossReason> for HoldEnd {
    fn from(reason: LossReason) -> Self {
        match reason {
            LossReason::Released => Self::Released,
            LossReason::Expired | LossReason::Gone | LossReason::SetLost => Self::Lost,
            LossReason::MaxHold => Self::MaxHold,
            LossReason::ShutDown => Self::Revoked,
        }
    }
}

named! {
    /// The verdict on a renewal.
    RenewalOutcome {
        /// A majority extended the key.
        Renewed = "renewed",
        /// Too few nodes replied. It is tried again while the lease is valid.
        Unknown = "unknown",
        /// Too many nodes had lost the key: the lease is lost.
        Lost = "lost",
    }
}

named! {
    /// How a node voted.
    VoteOutcome {
        /// It granted the lock.
        Granted = "granted",
        /// Another owner has the lock.
        Held = "held",
        /// It replied with an error, or the connection was lost.
        Failed = "failed",
    }
}
