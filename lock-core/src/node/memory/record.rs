use std::collections::BTreeMap;

use crate::node::{FenceReading, FoundRecord, Keyspace, LockKeys, NodeError, NodeRecord, RecordWrite};
use crate::random::Epoch;

/// The records of a node, by their keys. There are few, and each request reads one: a hash would take longer than to compare.
#[derive(Clone, Default)]
pub(super) struct Records(BTreeMap<String, Record>);

/// The record of the node and the fences are one thing: a node that forgot the fences has no epoch, and so no vote.
#[derive(Clone, Default)]
struct Record {
    node: NodeRecord,
    fences: BTreeMap<u16, u64>,
    /// What every fence is at least.
    floor: u64,
}

impl Records {
    pub(super) fn find(&self, keyspace: &Keyspace) -> FoundRecord {
        let record = self.0.get(keyspace.record());
        record.map_or(FoundRecord::None, |record| FoundRecord::Record(record.node.clone()))
    }

    /// Writes the record at a time on the node's clock, in microseconds.
    pub(super) fn write(&mut self, keyspace: &Keyspace, write: &RecordWrite, micros: u64) -> Option<NodeRecord> {
        let node = write.apply(self.0.get(keyspace.record()).map(|present| &present.node), micros)?;
        let record = self.0.entry(keyspace.record().to_owned()).or_default();
        record.node = node.clone();
        record.floor = record.floor.max(write.floor.unwrap_or_default());
        Some(node)
    }

    /// The highest fence, if the record was written for this run.
    pub(super) fn highest_fence(&self, keyspace: &Keyspace, run_id: &str) -> Option<FenceReading> {
        let record = self.0.get(keyspace.record()).filter(|record| record.node.run_id == run_id);
        let Record { node, fences, floor } = record?;
        let highest = fences.values().copied().max().unwrap_or_default().max(*floor);
        Some(FenceReading { member: node.member, highest })
    }

    pub(super) fn check_epoch(&self, keyspace: &Keyspace, epoch: Epoch) -> Result<(), NodeError> {
        let record = self.0.get(keyspace.record());
        record.filter(|record| record.node.epoch == Some(epoch)).map(drop).ok_or(NodeError::Unadmitted)
    }

    pub(super) fn fence(&self, keys: &LockKeys) -> u64 {
        let Some(record) = self.0.get(keys.keyspace().record()) else { return 0 };
        record.fences.get(&keys.fence()).copied().unwrap_or(0).max(record.floor)
    }

    pub(super) fn set_fence(&mut self, keys: &LockKeys, token: u64) {
        if let Some(record) = self.0.get_mut(keys.keyspace().record()) {
            record.fences.insert(keys.fence(), token);
        }
    }
}
