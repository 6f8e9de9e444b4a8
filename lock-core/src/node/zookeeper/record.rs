//! The value of the record's znode: lines of `name=value`, for people, too.

use std::fmt::Write as _;

use crate::node::limits::parse_number;
use crate::node::record_fields::{FIELDS, decode_fields, encode_fields};
use crate::node::{FoundRecord, NodeError, NodeRecord, RecordWrite};

/// A record, and what all fences are at least.
pub(super) struct Stored {
    pub(super) found: FoundRecord,
    pub(super) floor: u64,
}

pub(super) fn encode(record: &NodeRecord, write: &RecordWrite, floor: u64) -> String {
    // The node completes it itself, so it is complete here.
    let complete = RecordWrite { record: record.clone(), new_member: false, ..write.clone() };
    let mut text = String::new();
    for (name, value) in FIELDS.iter().zip(encode_fields(&complete)) {
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        _ = writeln!(text, "{name}={value}");
    }
    _ = writeln!(text, "floor={floor}");
    text
}

pub(super) fn decode(value: &[u8]) -> Result<Stored, NodeError> {
    let damaged = || NodeError::Protocol { reply: "the record of the node is damaged".into() };
    let text = std::str::from_utf8(value).map_err(|_| damaged())?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.split_once('=').filter(|(found, _)| *found == name));
        value.map(|(_, value)| unescape(value))
    };
    let floor = field("floor").as_deref().and_then(parse_number).ok_or_else(damaged)?;
    let format = field("format").and_then(|format| format.parse().ok()).ok_or_else(damaged)?;
    let found = match format {
        NodeRecord::FORMAT => FoundRecord::Record(decode_fields(&FIELDS.map(field)).ok_or_else(damaged)?),
        other => FoundRecord::OtherFormat(other),
    };
    Ok(Stored { found, floor })
}

fn unescape(value: &str) -> String {
    let (mut text, mut characters) = (String::with_capacity(value.len()), value.chars());
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => text.push(if characters.next() == Some('n') { '\n' } else { '\\' }),
            (character, false) => text.push(character),
        }
    }
    text
}
