use std::fmt;

use lock_core::quorum::{AcquireVote, ConfirmVote, KeyVote};

use super::action::Request;
use super::decider::Decider;
use super::eviction::{Eviction, Owners};
use super::nodes::Nodes;

/// The number of nodes: three, the smallest set in which a minority can fail.
pub const NODES: usize = 3;
/// The largest number of attempts that a setting can have.
pub const CLIENTS: usize = 4;

/// What the lock key contains while readers hold the lock.
pub const SHARED: usize = usize::MAX;
/// What the lock key contains after an eviction, until anybody may have it.
pub const NOBODY: usize = usize::MAX - 1;

/// A state of the model. It keeps what was sent: a request may be executed at any time, more than once, or never.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The time in ticks, or 0 in settings without time.
    pub now: u8,
    /// How many times a node has lost its data.
    pub forgets: u8,
    /// How many times another lock has advanced a node's fence.
    pub fence_advances: u8,
    /// The nodes.
    pub nodes: [Node; NODES],
    /// The clients, each with one attempt.
    pub clients: [Client; CLIENTS],
    /// The eviction, in settings that have one.
    pub eviction: Option<Box<Eviction>>,
    /// What must not happen and did.
    pub breaches: Breaches,
}

/// A node: what it stores about the one lock of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// The lock key, `L`.
    pub key: Option<Key>,
    /// Of each client that reads: the tick in which its entry has expired, or 0 if it has none. They count while the key is the
    /// marker.
    pub readers: [u8; CLIENTS],
    /// The fence, `F`.
    pub fence: u8,
    /// The epoch in which it executes requests. It increases when any node loses its data and joins again.
    pub epoch: u8,
    /// Whether it has lost its data.
    pub forgot: bool,
    /// The tick in which the quarantine ends, or 0 outside of a quarantine.
    pub quarantine: u8,
    /// The owners that were evicted, and cannot have the key.
    pub barred: Owners,
    /// The tick in which they are forgotten.
    pub barred_until: u8,
}

/// A lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The owner id that it contains, or [`SHARED`], or [`NOBODY`].
    pub owner: usize,
    /// The tick in which it has expired.
    pub expires: u8,
}

/// A client and what it has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// What the client is doing.
    pub phase: Phase,
    /// The token that it was granted, the first of its block. It stays after the release.
    pub token: Option<u8>,
    /// The nodes to which it sent its acquire, with the epoch that it was sent to.
    pub acquires: [Option<u8>; NODES],
    /// What it proposed in each round of confirmation.
    pub confirms: [Proposal; 2],
    /// The nodes to which it sent an extend.
    pub extends: Nodes,
    /// The nodes to which it sent a replace.
    pub replaces: [Option<Replace>; NODES],
    /// How many renewals it has begun.
    pub renewals: u8,
    /// Whether it was a writer and reads from now on.
    pub downgraded: bool,
    /// The nodes to which it sent a downgrade.
    pub downgrades: Nodes,
}

/// A replace that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replace {
    /// The epoch that it was sent to.
    pub epoch: u8,
    /// Whether it puts back a reader.
    pub reads: bool,
}

/// A proposed token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The token, or 0 if there is no proposal.
    pub token: u8,
    /// The nodes to which its confirm was sent.
    pub nodes: Nodes,
}

/// What a client is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not begun.
    #[default]
    Idle,
    /// It waits for the replies to an acquire or a confirm.
    Acquiring(Box<Attempt>),
    /// It holds the lock.
    Holding {
        /// The first tick in which the lease is not valid.
        until: u8,
        /// The renewal in progress.
        renewal: Option<Box<Renewal>>,
    },
    /// It failed, gave up or released, or its lease expired. Its release and its earlier requests may still be executed.
    Ended,
}

/// An attempt in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// What decides.
    pub decider: Decider,
    /// The tick in which it began.
    pub began: u8,
    /// The largest token that had been granted by then.
    pub floor: u8,
    /// The epoch of all nodes at that time.
    pub epoch: u8,
    /// The nodes whose grant is recorded.
    pub granted: Nodes,
    /// What it waits for.
    pub replies: [ReplySlot; NODES],
}

/// A renewal in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    /// What decides.
    pub decider: Decider,
    /// The tick in which it began.
    pub sent: u8,
    /// The epochs to which the extends were sent.
    pub epochs: [Option<u8>; NODES],
    /// The nodes on which the extend found the key of the lease.
    pub kept: Nodes,
    /// Whether the lease was renewed.
    pub renewed: bool,
    /// Whether it began after its holder had been evicted.
    pub after_eviction: bool,
    /// Whether it also makes a reader of the writer.
    pub downgrades: bool,
    /// What it waits for.
    pub replies: [ReplySlot; NODES],
}

/// The reply that a client awaits from a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplySlot {
    /// None.
    #[default]
    Closed,
    /// The node has not replied, and may never do so.
    Awaiting(ReplyKind),
    /// The node has replied. The reply may still be lost.
    InFlight(Vote),
}

/// The kind of request that a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplyKind {
    /// The acquire.
    Acquire,
    /// The confirm of this round.
    Confirm(u8),
    /// The extend of the current renewal.
    Extend,
    /// The downgrade.
    Downgrade,
}

/// A reply as the quorum counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// On an acquire.
    Acquire(AcquireVote),
    /// On the confirm of a round.
    Confirm(u8, ConfirmVote),
    /// On an extend.
    Extend(KeyVote),
    /// On a downgrade.
    Downgrade(KeyVote),
}

/// What must not happen. It is recorded when it happens, so that the state need not keep what led to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breaches {
    /// A token is not larger than one that was granted before its attempt began.
    pub unordered_token: bool,
    /// A token was granted without a majority.
    pub token_without_majority: bool,
    /// A request changed the key of another owner.
    pub foreign_key_changed: bool,
    /// A lease was renewed without a majority that still had its key.
    pub lost_key_renewed: bool,
    /// A renewal succeeded that began after its holder had been evicted.
    pub evicted_renewed: bool,
}

impl Client {
    /// Removes a request that was executed and will not be executed again.
    pub(super) fn remove_request(&mut self, node: usize, request: Request) {
        match request {
            Request::Acquire => self.acquires[node] = None,
            Request::Confirm(round) => self.confirms[usize::from(round) - 1].nodes.remove(node),
            Request::Extend => self.extends.remove(node),
            Request::Replace => self.replaces[node] = None,
            Request::Downgrade => self.downgrades.remove(node),
            Request::Release => {}
        }
    }

    /// The last token of its block of `tokens` tokens.
    pub(super) fn last_token(&self, tokens: u8) -> Option<u8> {
        self.token.map(|first| first + tokens - 1)
    }

    /// The replies that it awaits.
    #[must_use]
    pub fn replies(&self) -> Option<&[ReplySlot; NODES]> {
        match &self.phase {
            Phase::Acquiring(attempt) => Some(&attempt.replies),
            Phase::Holding { renewal: Some(renewal), .. } => Some(&renewal.replies),
            _ => None,
        }
    }

    /// The replies that it awaits.
    pub fn replies_mut(&mut self) -> Option<&mut [ReplySlot; NODES]> {
        match &mut self.phase {
            Phase::Acquiring(attempt) => Some(&mut attempt.replies),
            Phase::Holding { renewal: Some(renewal), .. } => Some(&mut renewal.replies),
            _ => None,
        }
    }

    /// Whether it awaits this reply of a node, recorded or not.
    #[must_use]
    pub fn awaits(&self, node: usize, kind: ReplyKind) -> bool {
        self.replies().is_some_and(|replies| replies[node].kind() == Some(kind))
    }
}

impl ReplySlot {
    /// The kind of reply that is awaited, if any.
    #[must_use]
    pub fn kind(self) -> Option<ReplyKind> {
        Some(match self {
            Self::Closed => return None,
            Self::Awaiting(kind) => kind,
            Self::InFlight(Vote::Acquire(_)) => ReplyKind::Acquire,
            Self::InFlight(Vote::Confirm(round, _)) => ReplyKind::Confirm(round),
            Self::InFlight(Vote::Extend(_)) => ReplyKind::Extend,
            Self::InFlight(Vote::Downgrade(_)) => ReplyKind::Downgrade,
        })
    }

    /// The vote that is counted if no reply arrives in time.
    #[must_use]
    pub fn no_reply(self) -> Option<Vote> {
        Some(match self.kind()? {
            ReplyKind::Acquire => Vote::Acquire(AcquireVote::NoReply),
            ReplyKind::Confirm(round) => Vote::Confirm(round, ConfirmVote::NoReply),
            ReplyKind::Extend => Vote::Extend(KeyVote::NoReply),
            ReplyKind::Downgrade => Vote::Downgrade(KeyVote::NoReply),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tick {}:", self.now)?;
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, " node {index} F={}", node.fence)?;
            match node.key {
                Some(key) if key.owner == SHARED => write!(f, " L=shared until {}", key.expires)?,
                Some(key) => write!(f, " L={} until {}", key.owner, key.expires)?,
                None => {}
            }
            let readers = node.readers.iter().enumerate().filter(|(_, expires)| **expires > 0);
            readers.clone().try_for_each(|(reader, expires)| write!(f, " {reader} reads until {expires}"))?;
            if node.forgot {
                write!(f, " lost its data")?;
            }
            if node.is_quarantined() {
                write!(f, " in quarantine until {}", node.quarantine)?;
            }
            write!(f, ";")?;
        }
        if let Some(eviction) = &self.eviction {
            write!(f, " {eviction:?};")?;
        }
        for (index, client) in self.clients.iter().enumerate() {
            match (&client.phase, client.token) {
                (Phase::Holding { until, .. }, Some(token)) => {
                    write!(f, " client {index} holds {token} until {until};")?;
                }
                (_, Some(token)) => write!(f, " client {index} had {token};")?,
                _ => {}
            }
        }
        Ok(())
    }
}
