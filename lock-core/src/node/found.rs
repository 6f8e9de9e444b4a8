use super::{Inspection, NodeError, NodeRecord, RecordWrite, Refusal};
use crate::random::Epoch;

/// What was found out over one connection. Requests of any other epoch are not sent over it, and records for any other memory of the
/// server are not written.
///
/// Otherwise either could be executed through a new connection before the server behind it is inspected. That server may have
/// restarted from an old state, which has the record but not the locks.
#[derive(Default)]
pub(super) struct Found {
    pub(super) run_id: Option<String>,
    /// If the record was written for this memory.
    epoch: Option<Epoch>,
    /// Why the server must not be used.
    refusal: Option<Refusal>,
}

impl Found {
    /// Notes what an inspection found. One that got no answer changes nothing.
    pub(super) fn inspected(&mut self, inspection: &Result<Inspection, NodeError>) {
        *self = match inspection {
            Ok(found) => {
                let own_record = found.record.get().filter(|record| record.run_id == found.run_id);
                let epoch = own_record.and_then(|record| record.epoch);
                Self { run_id: Some(found.run_id.clone()), epoch, refusal: None }
            }
            // It must not be used any more, as what it was found to be before.
            Err(NodeError::Refused(refusal)) => Self { refusal: Some(refusal.clone()), ..Self::default() },
            Err(_) => return,
        };
    }

    /// Whether a record is for the memory that was found.
    pub(super) fn is_memory_of(&self, write: &RecordWrite) -> bool {
        self.run_id.as_ref() == Some(&write.record.run_id)
    }

    /// Notes the record that was written, if one was.
    pub(super) fn written(&mut self, record: Option<&NodeRecord>) {
        if let Some(record) = record {
            self.epoch = record.epoch;
        }
    }

    /// Whether requests of this epoch may be sent.
    pub(super) fn check_epoch(&self, epoch: Epoch) -> Result<(), NodeError> {
        if self.epoch == Some(epoch) {
            return Ok(());
        }
        Err(self.refusal.clone().map_or(NodeError::Unadmitted, NodeError::Refused))
    }
}
