use std::time::Duration;

use super::limits::check_number;
use super::roster::{Ballot, MemberId, Roster};
use crate::error::NodeError;
use crate::random::Epoch;

/// A node's record: which memory this is, and which set of masters it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    /// The run id of the server that the record was written for.
    pub run_id: String,
    /// The id of the node's memory.
    pub member: MemberId,
    /// Counts the writes of the record.
    pub version: u64,
    /// The id that the node had before it restarted or was replaced. With one, the node is not new: it may only take the seat that it
    /// had.
    pub was: Option<MemberId>,
    /// The epoch in which the node executes requests. Without one it executes none.
    pub epoch: Option<Epoch>,
    /// The newest roster that was installed.
    pub roster: Option<Roster>,
    /// The members of the roster before that one.
    pub previous: Vec<MemberId>,
    /// The highest ballot that the node takes part in: it promised not to take part in a lower one.
    pub promised: Option<Ballot>,
    /// The roster of the next generation that it last accepted, and in which ballot.
    pub accepted: Option<(Ballot, Roster)>,
    /// The quarantines that this node observes: its own, and those of others.
    pub quarantines: Vec<Quarantine>,
}

/// The time during which a node that joins grants nothing, as one node observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quarantine {
    /// The node that joins.
    pub member: MemberId,
    /// When it ends, in microseconds on the clock of the node that observes it.
    pub ends: u64,
}

impl NodeRecord {
    /// The version of the format of keys, records and scripts.
    pub const FORMAT: u32 = 1;

    /// Whether its own roster has a seat for it.
    pub fn has_seat(&self) -> bool {
        self.roster.as_ref().is_some_and(|roster| roster.contains(self.member))
    }

    /// Whether it has installed this very roster, and has a seat in it.
    pub fn is_seated_in(&self, roster: &Roster) -> bool {
        self.roster.as_ref() == Some(roster) && self.has_seat()
    }

    /// The numbers in it that count something, or are times.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let rosters = self.roster.iter().chain(self.accepted.iter().map(|(_, roster)| roster));
        let of_rosters = rosters.flat_map(|Roster { generation, max_ttl, quarantine_ttl, .. }| {
            let millis = |ttl: &Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            [*generation, millis(max_ttl), millis(quarantine_ttl)]
        });
        let ballots = self.promised.iter().chain(self.accepted.iter().map(|(ballot, _)| ballot));
        let quarantines = self.quarantines.iter().map(|quarantine| quarantine.ends);
        of_rosters.chain(ballots.map(|ballot| ballot.round)).chain(quarantines).chain([self.version]).collect()
    }

    /// When a node's quarantine ends, if this node observes it.
    pub fn quarantine_of(&self, member: MemberId) -> Option<u64> {
        self.quarantines.iter().find(|quarantine| quarantine.member == member).map(|quarantine| quarantine.ends)
    }
}

/// A write of a node's record, in one step, if the present record is the expected one: of two clients that change it, one
/// succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// The id and version of the present record; `None` if there is none.
    pub expected: Option<(MemberId, u64)>,
    /// The new record. Its version is counted by the node.
    pub record: NodeRecord,
    /// Whether the node completes the id of the record with its own time.
    pub new_member: bool,
    /// The quarantines to begin, with their length. The node knows its time.
    pub begin: Vec<(MemberId, Duration)>,
    /// What every fence of the node is raised to.
    pub floor: Option<u64>,
}

impl RecordWrite {
    /// The write of a changed record, in place of the present one.
    pub(crate) fn replacing(present: &NodeRecord, record: NodeRecord) -> Self {
        let expected = Some((present.member, present.version));
        Self { expected, record, new_member: false, begin: Vec::new(), floor: None }
    }

    /// The record that a node has after this write, at a time on its clock in microseconds; `None` if the present record is not
    /// the expected one. The floor is the node's to apply.
    pub fn apply(&self, present: Option<&NodeRecord>, micros: u64) -> Option<NodeRecord> {
        // A compare-and-set: of two clients that decide by the same record, the second has to read it again.
        if present.map(|present| (present.member, present.version)) != self.expected {
            return None;
        }
        let mut record = NodeRecord { version: self.next_version(), ..self.record.clone() };
        if self.new_member {
            record.member.micros = micros;
        }
        record.quarantines.extend(self.begin.iter().map(|(member, length)| {
            let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
            Quarantine { member: *member, ends: micros.saturating_add(length) }
        }));
        Some(record)
    }

    /// The version of the record that is written.
    pub fn next_version(&self) -> u64 {
        self.expected.map_or(1, |(_, version)| version.saturating_add(1))
    }
}

/// The highest of a node's fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceReading {
    /// The id of the memory that it was read from.
    pub member: MemberId,
    /// The highest fence, or 0.
    pub highest: u64,
}

impl FenceReading {
    /// The reading, unless its fence is beyond 2^53 - 1.
    pub(crate) fn check(reading: Option<Self>) -> Result<Option<Self>, NodeError> {
        reading.map_or(Ok(()), |reading| check_number(reading.highest, "as a fence"))?;
        Ok(reading)
    }
}

/// What an inspection found out about a node that can be used. Whether the node votes follows from this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inspection {
    /// Names the memory that the node answers from. While it stays the same, the node has all that it acknowledged, and no other
    /// node of the set has this one. Whatever may have lost something gets another: a restart, a promotion, a backup that was restored.
    ///
    /// So a node whose record was written under its present run id remembers everything since that record. A node whose record has
    /// another one is taken for one that forgot.
    ///
    /// A Redis server draws a part of it when it starts, and a part whenever the history of its data may have become another one. A store that can tell whether it lost anything in a restart may keep it over those
    /// in which it did not.
    pub run_id: String,
    /// How far the log of the store is written, which only grows while the memory stays the same: in PostgreSQL, a log sequence number.
    ///
    /// `None` if the store has no such number, or draws another run id whenever it starts. A client that saw a higher number under the
    /// same id takes the node for one that forgot: its files are an earlier copy.
    pub log_position: Option<u64>,
    /// Whether every write is on disk before it is acknowledged, as the node says now. Only
    /// [`assume_durable`](crate::LockManagerBuilder::assume_durable) asks for it.
    pub durable: bool,
    /// The node's clock, in microseconds since the Unix epoch.
    pub clock_micros: u64,
    /// The record of the node.
    pub record: FoundRecord,
}

impl Inspection {
    /// The inspection, unless a number in it is beyond 2^53 - 1: no node counts that far, and what is learned from one node is
    /// written to the others.
    pub(crate) fn check(self) -> Result<Self, NodeError> {
        let numbers = self.record.get().map_or_else(Vec::new, NodeRecord::numbers);
        numbers
            .into_iter()
            .chain([self.clock_micros])
            .try_for_each(|number| check_number(number, "in an inspection"))?;
        Ok(self)
    }
}

/// The record that an inspection found.
#[allow(clippy::large_enum_variant, reason = "there is one for each node")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FoundRecord {
    /// None: the node is new, or lost everything.
    None,
    /// One of another format.
    OtherFormat(u32),
    /// This one.
    Record(NodeRecord),
}

impl FoundRecord {
    /// The record, if it is of this format.
    pub fn get(&self) -> Option<&NodeRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::None | Self::OtherFormat(_) => None,
        }
    }
}
