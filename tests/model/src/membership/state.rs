use std::fmt;

use lock_core::node::{Epoch, Inspection, RecordWrite, Roster};
use lock_core::quorum::RollCall;

use super::mind::Mind;
use super::node::MemberNode;
use super::shared::Shared;

/// A state of the model of the membership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MembershipState {
    /// The tick.
    pub now: u8,
    /// The nodes.
    pub nodes: Vec<MemberNode>,
    /// The nodes of the other set, to which all addresses may lead.
    pub elsewhere: Vec<MemberNode>,
    /// The clients.
    pub clients: Vec<Shared<Mind>>,
    /// What is on its way.
    pub in_flight: Vec<InFlight>,
    /// The attempts to acquire the lock.
    pub attempts: Vec<MemberAttempt>,
    /// All rosters that were installed or taken for chosen.
    pub rosters: Vec<Shared<Roster>>,
    /// What faults there were.
    pub faults: Faults,
    /// Since when a lower `max_ttl` is in use, and in which generation.
    pub lowered: Option<(u64, u8)>,
    /// Two tokens are in the wrong order, or equal.
    pub unordered_token: bool,
}

/// How many faults there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Nodes that lost everything.
    pub forgets: u8,
    /// Nodes that restarted with their records.
    pub restarts: u8,
    /// Nodes that were started with earlier copies of their files.
    pub restores: u8,
    /// Clocks that went wrong.
    pub jumps: u8,
    /// Writes that were delayed.
    pub late_writes: u8,
    /// Replies that were delayed.
    pub late_reads: u8,
    /// Detours, each to the other set.
    pub detours: u8,
}

/// A message that is executed or arrives at any later step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InFlight {
    /// A write of a node's record.
    Write(usize, SharedWrite),
    /// The reply to a read, to a client, of the node in this place of its list.
    Read(usize, usize, Shared<Inspection>),
}

/// A write, compared by its hash.
pub(super) type SharedWrite = Shared<Hashed>;

/// A write, with the hash of its parts.
#[derive(Clone, Debug)]
pub struct Hashed(pub RecordWrite);

impl std::hash::Hash for Hashed {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let RecordWrite { expected, record, new_member, begin, floor } = &self.0;
        (expected, record, new_member, begin, floor).hash(state);
    }
}

/// An attempt to acquire the lock, and its lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberAttempt {
    /// What it is doing.
    pub phase: Phase,
    /// The tick at which it began, or at which the renewal in progress did.
    pub began: u8,
    /// The largest token that had been granted when it began.
    pub after: u8,
    /// The epochs to which its requests are addressed, by place in the list of its client.
    pub epochs: Vec<Option<Epoch>>,
    /// The seats that were asked.
    pub roll: RollCall,
    /// The roster that its votes are counted by.
    pub asked_by: Option<Shared<Roster>>,
    /// The roster that the votes for its lease were counted by.
    pub counted_by: Option<Shared<Roster>>,
    /// The token that was granted over each address of the list, or 0. In a renewal, 1 for each node that kept the key.
    pub votes: Vec<u8>,
    /// The addresses over which the token was confirmed.
    pub confirmed: Vec<bool>,
    /// The token, once it is proposed.
    pub token: u8,
    /// The tick at which the lease ends.
    pub until: u8,
    /// The time to live of its keys.
    pub ttl: u8,
    /// How many renewals it began.
    pub renewals: u8,
}

/// What an attempt is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing yet.
    #[default]
    Idle,
    /// It gathers votes.
    Gathering,
    /// It has proposed a token.
    Confirming,
    /// It has the lease.
    Held,
    /// It has the lease, and renews it.
    Renewing,
    /// It has ended.
    Done,
}

impl MemberAttempt {
    /// Whether it has a lease that is valid at this tick.
    pub(super) fn holds(&self, now: u8) -> bool {
        matches!(self.phase, Phase::Held | Phase::Renewing) && now < self.until
    }
}

impl fmt::Display for MembershipState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tick {}; ", self.now)?;
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "node {index} run {} F={}", node.run, node.fence)?;
            if let Some((owner, expires)) = node.key {
                write!(f, " L={owner} until {expires}")?;
            }
            if let Some(record) = &node.record {
                write!(f, " id {}@{}", record.member.micros, record.version)?;
                if let Some(roster) = &record.roster {
                    write!(f, " {}", short(roster))?;
                }
                if let Some(promised) = record.promised {
                    write!(f, " promised {}.{}", promised.round, promised.proposer)?;
                }
                if let Some((ballot, roster)) = &record.accepted {
                    write!(f, " accepted {}.{} {}", ballot.round, ballot.proposer, short(roster))?;
                }
                if node.live_record(index).is_none() {
                    write!(f, " STALE")?;
                } else if record.epoch.is_some() {
                    write!(f, " VOTES")?;
                }
                for quarantine in &record.quarantines {
                    write!(f, " q{}<{}", quarantine.member.micros, quarantine.ends / 1000)?;
                }
            }
            write!(f, "; ")?;
        }
        for (index, client) in self.clients.iter().enumerate() {
            write!(f, "client {index}: {}; ", client.membership.roster().map_or("-".into(), short))?;
        }
        for (index, attempt) in self.attempts.iter().enumerate() {
            let MemberAttempt { phase, votes, token, until, .. } = attempt;
            write!(f, "attempt {index} {phase:?} votes {votes:?} token {token} until {until}; ")?;
        }
        write!(f, "{} in flight", self.in_flight.len())
    }
}

/// A roster in short.
pub(super) fn short(roster: &Roster) -> String {
    let seats = roster.seats.iter().map(|seat| match seat {
        Some(seat) => seat.member.micros.to_string(),
        None => "-".into(),
    });
    format!("{:x}g{}[{}]", roster.set.0 % 4096, roster.generation, seats.collect::<Vec<_>>().join(","))
}
