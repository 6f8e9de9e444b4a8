use std::collections::BTreeMap;

use crate::node::{FoundRecord, Inspection, MemberId};

/// How far the logs of members were written when this client saw them last.
///
/// A store that keeps its run id over a restart knows itself what a crash lost. It cannot know that its files were exchanged for an
/// earlier copy of them. Its log then ends earlier than a client has seen it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogPositions(BTreeMap<MemberId, u64>);

impl LogPositions {
    /// Makes an inspection one of a node that forgot, if its log ended later when `self` was noted: before the node was asked.
    pub(super) fn judge(&self, seen: &mut Inspection) {
        let Some((member, position)) = position(seen) else { return };
        let went_back = self.0.get(&member).is_some_and(|highest| *highest > position);
        if let FoundRecord::Record(record) = &mut seen.record
            && went_back
        {
            // Written for another memory, as far as this client is concerned.
            record.run_id.clear();
        }
    }

    pub(super) fn note(&mut self, seen: &Inspection) {
        if let Some((member, position)) = position(seen) {
            let highest = self.0.entry(member).or_default();
            *highest = position.max(*highest);
        }
    }

    /// Forgets all members but these.
    pub(super) fn retain(&mut self, mut is_needed: impl FnMut(MemberId) -> bool) {
        self.0.retain(|member, _| is_needed(*member));
    }
}

/// The member whose memory this is, and how far its log is written.
fn position(seen: &Inspection) -> Option<(MemberId, u64)> {
    let record = seen.record.get().filter(|record| record.run_id == seen.run_id)?;
    Some((record.member, seen.log_position?))
}
