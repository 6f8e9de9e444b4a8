//! The record of a node as texts, for stores that keep fields.

use super::limits::parse_number;
use super::{Ballot, FoundRecord, MemberId, NodeError, NodeRecord, Quarantine, RecordWrite, Roster};
use crate::random::Epoch;

/// The names of the fields, in their order.
#[rustfmt::skip]
pub(super) const FIELDS: [&str; 11] = [
    "member", "version", "run_id", "format", "was", "roster", "previous", "promised", "accepted", "quarantines", "epoch",
];

/// The fields of the record that is to be written. A new member id ends before the time, which the node adds, and the quarantines
/// that begin are missing.
pub(super) fn encode_fields(write: &RecordWrite) -> [String; FIELDS.len()] {
    let RecordWrite { record, new_member, .. } = write;
    let member = if *new_member { format!("{:016x}", record.member.random) } else { record.member.to_string() };
    let accepted = record.accepted.as_ref().map(|(ballot, roster)| format!("{ballot}\n{roster}"));
    let quarantines = record.quarantines.iter().map(|Quarantine { member, ends }| format!("{member} {ends}"));
    [
        member,
        write.next_version().to_string(),
        record.run_id.clone(),
        NodeRecord::FORMAT.to_string(),
        text(record.was),
        text(record.roster.as_ref()),
        words(record.previous.iter().map(MemberId::to_string)),
        text(record.promised),
        text(accepted),
        words(quarantines),
        text(record.epoch),
    ]
}

/// Reads the fields of a record: none of them is there if there is no record. Of one that has another format, only the format is read.
pub(super) fn decode_record(fields: &[Option<String>]) -> Result<FoundRecord, NodeError> {
    let read = || match <&[_; FIELDS.len()]>::try_from(fields).ok()? {
        none if none.iter().all(Option::is_none) => Some(FoundRecord::None),
        this @ [_, _, _, Some(format), ..] => match format.parse().ok()? {
            NodeRecord::FORMAT => decode_fields(this).map(FoundRecord::Record),
            other => Some(FoundRecord::OtherFormat(other)),
        },
        _ => None,
    };
    read().ok_or_else(|| NodeError::Protocol { reply: format!("damaged record of the node: {fields:?}") })
}

/// Reads the fields of a record of this format; `None` if they are damaged.
fn decode_fields(fields: &[Option<String>; FIELDS.len()]) -> Option<NodeRecord> {
    let [member, version, run_id, _, was, roster, previous, promised, accepted, quarantines, epoch] = fields;
    let accepted = optional(accepted, |text| {
        let (ballot, roster) = text.split_once('\n')?;
        Some((Ballot::parse(ballot)?, Roster::parse(roster)?))
    });
    Some(NodeRecord {
        run_id: run_id.clone()?,
        member: MemberId::parse(member.as_deref()?)?,
        version: parse_number(version.as_deref()?)?,
        was: optional(was, MemberId::parse)?,
        epoch: optional(epoch, Epoch::parse)?,
        roster: optional(roster, Roster::parse)?,
        previous: previous.as_deref()?.split_whitespace().map(MemberId::parse).collect::<Option<_>>()?,
        promised: optional(promised, Ballot::parse)?,
        accepted: accepted?,
        quarantines: decode_quarantines(quarantines.as_deref()?)?,
    })
}

/// What was written, of the member id and the quarantines that the node completed.
pub(super) fn written(write: &RecordWrite, member: &str, quarantines: &str) -> Option<NodeRecord> {
    Some(NodeRecord {
        member: MemberId::parse(member)?,
        version: write.next_version(),
        quarantines: decode_quarantines(quarantines)?,
        ..write.record.clone()
    })
}

/// Reads `member ends member ends`.
fn decode_quarantines(text: &str) -> Option<Vec<Quarantine>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [member, ends] => Some(Quarantine { member: MemberId::parse(member)?, ends: parse_number(ends)? }),
        _ => None,
    });
    pairs.collect()
}

/// Nothing is an empty text.
pub(super) fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn words(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(" ")
}

/// An empty text stands for nothing.
fn optional<T>(field: &Option<String>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match field.as_deref()? {
        "" => Some(None),
        text => parse(text).map(Some),
    }
}
