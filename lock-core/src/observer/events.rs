//! The events. The structs may get more fields, and the enums more variants.

use std::time::Duration;

use crate::error::{LockError, LossReason};

/// A caller asks for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// An acquisition ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// How it ended.
    pub outcome: AcquireOutcome,
    /// How long the caller waited.
    pub waited: Duration,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// The caller has the lock.
    Acquired,
    /// Another owner had it until the wait was over, or too many callers waited for it already.
    Contended,
    /// Fewer than a majority of the nodes replied.
    NoQuorum,
    /// It was granted so late that too little of its validity was left.
    Expired,
    /// The caller gave up: its future was dropped.
    Cancelled,
    /// The manager was closed.
    Closed,
    /// Any other error: of the resource's name, or of the options.
    Error,
}

impl AcquireOutcome {
    /// Its name in metrics and spans: `acquired`, `contended`, `no_quorum`, `expired`, `cancelled`, `closed` or `error`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Contended => "contended",
            Self::NoQuorum => "no_quorum",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Error => "error",
        }
    }

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

/// The nodes are asked for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttemptBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// A lock is held from now on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldBegan<'a> {
    /// The template of the resource.
    pub template: &'a str,
}

/// A lock is not held any more.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HoldEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// What ended it. Anything but [`Released`](LossReason::Released) is a loss.
    pub reason: LossReason,
    /// How long it was held.
    pub held: Duration,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// Its guard released it.
    Released,
    /// It expired, or the nodes had lost it, or another lock of its set.
    Lost,
    /// It was held for `max_hold`.
    MaxHold,
    /// The grace of a shutdown ended.
    Revoked,
}

impl HoldEnd {
    /// Its name in metrics and spans: `released`, `lost`, `max_hold` or `revoked`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost => "lost",
            Self::MaxHold => "max_hold",
            Self::Revoked => "revoked",
        }
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

/// A lock goes to the next caller in this process.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HandedOver<'a> {
    /// The template of the resource, for the one who held it.
    pub template: &'a str,
}

/// The nodes were asked to extend a lease.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenewalEnded<'a> {
    /// The template of the resource.
    pub template: &'a str,
    /// What they replied.
    pub outcome: RenewalOutcome,
}

/// The verdict on a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// A majority extended the key.
    Renewed,
    /// Too few nodes replied. It is tried again while the lease is valid.
    Unknown,
    /// So many nodes had lost the key that the lease is lost.
    Lost,
}

impl RenewalOutcome {
    /// Its name in metrics: `renewed`, `unknown` or `lost`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        }
    }
}

/// A node replied to the request for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeVoted<'a> {
    /// The node.
    pub node: &'a str,
    /// Its vote.
    pub outcome: VoteOutcome,
    /// The time from when the request was handed to the node's connection.
    pub duration: Duration,
}

/// How a node voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VoteOutcome {
    /// It granted the lock.
    Granted,
    /// Another owner has the lock.
    Held,
    /// It replied with an error, or the connection was lost.
    Failed,
}

impl VoteOutcome {
    /// Its name in metrics: `granted`, `held` or `failed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Failed => "failed",
        }
    }
}

/// A node is in another state.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeChanged<'a> {
    /// The node.
    pub node: &'a str,
    /// Whether it votes.
    pub up: bool,
}
