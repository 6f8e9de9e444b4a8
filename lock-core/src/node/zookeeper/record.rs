//! The value of the record's znode: lines of `name=value`, which people can read as well.

use std::fmt::Write as _;

use crate::node::limits::parse_number;
use crate::node::record_fields::{FIELDS, decode_record, encode_fields};
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
    Ok(Stored { found: decode_record(&FIELDS.map(field))?, floor })
}

/// Split at the escaped backslashes first: in `\\n`, the `n` is not a part of `\n`.
fn unescape(value: &str) -> String {
    value.split(r"\\").map(|part| part.replace(r"\n", "\n")).collect::<Vec<_>>().join(r"\")
}
