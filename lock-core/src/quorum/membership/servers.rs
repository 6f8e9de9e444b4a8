//! Which server a node of the list leads to, and why one must not be used.

use super::knowledge::Membership;
use crate::error::Refusal;
use crate::node::{Division, FoundRecord, Inspection, MemberId, NodeRecord};

impl Membership {
    /// What was read of a node, if it can be used.
    pub(super) fn usable(&self, node: usize) -> Option<&Inspection> {
        self.nodes[node].seen.as_ref().filter(|_| self.refusal(node).is_none())
    }

    /// The record of a node, if it can be used.
    pub(super) fn record(&self, node: usize) -> Option<&NodeRecord> {
        self.usable(node)?.record.get()
    }

    /// The records of all nodes that can be used and were not restarted since.
    pub(super) fn records(&self) -> impl Iterator<Item = (usize, &NodeRecord)> {
        (0..self.nodes.len()).filter_map(|node| {
            let seen = self.usable(node)?;
            Some((node, seen.record.get().filter(|record| record.run_id == seen.run_id)?))
        })
    }

    /// Which node has this id.
    pub fn node_of(&self, member: MemberId) -> Option<usize> {
        self.records().find(|(_, record)| record.member == member).map(|(node, _)| node)
    }

    /// The node whose address leads to what this one led to: the server that it is refused as another address of, or, while it does
    /// not answer, one that has the memory which it was last seen to have. The node itself, if there is none.
    pub fn now_at(&self, node: usize) -> usize {
        let known = &self.nodes[node];
        let now_at = match &known.seen {
            Some(_) => self.same_server(node),
            None => known.member.and_then(|member| self.node_of(member)),
        };
        now_at.unwrap_or(node)
    }

    /// An earlier node of the list that is the same server.
    fn same_server(&self, node: usize) -> Option<usize> {
        let seen = self.nodes[node].seen.as_ref()?;
        (0..node).find(|other| self.nodes[*other].seen.as_ref().is_some_and(|other| other.run_id == seen.run_id))
    }

    /// Why a node must not be used that says of itself that it can be.
    pub(super) fn refusal(&self, node: usize) -> Option<Refusal> {
        let seen = self.nodes[node].seen.as_ref()?;
        // The one that was named first stays: there must be no moment at which both vote.
        if let Some(other) = self.same_server(node) {
            return Some(Refusal::Duplicate { other: self.config.names[other].clone() });
        }
        let other_set = |field, ours: String, theirs: String| Some(Refusal::OtherSet { field, ours, theirs });
        let other_shards = |ours: Division, theirs: Division| other_set("shards", ours.to_string(), theirs.to_string());
        // No set of this shard says how many there are, but that of another one does.
        let elsewhere = || {
            let (ours, theirs) = self.elsewhere.filter(|_| self.roster.is_none())?;
            other_shards(ours, theirs)
        };
        match &seen.record {
            FoundRecord::None => elsewhere(),
            FoundRecord::OtherFormat(other) => other_set("format", NodeRecord::FORMAT.to_string(), other.to_string()),
            FoundRecord::Record(record) => {
                let Some(roster) = &record.roster else { return elsewhere() };
                let (ours, theirs) = (self.config.names.len(), roster.seats.len());
                if roster.name != self.config.set_name {
                    other_set("set_name", format!("{:?}", self.config.set_name), format!("{:?}", roster.name))
                } else if roster.division != self.config.division {
                    other_shards(self.config.division, roster.division)
                } else if ours != theirs {
                    other_set("number of nodes", ours.to_string(), theirs.to_string())
                } else {
                    None
                }
            }
        }
    }
}
