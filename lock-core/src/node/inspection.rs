use super::{MAX_TOKEN, NodeError, NodeRecord};

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
        match numbers.into_iter().chain([self.clock_micros]).max().filter(|highest| *highest > MAX_TOKEN) {
            Some(number) => Err(NodeError::Protocol { reply: format!("{number} in an inspection") }),
            None => Ok(self),
        }
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
