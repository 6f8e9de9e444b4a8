//! The record of a node: a hash, which the script `record.lua` writes.

use redis::Cmd;

use super::codec::millis;
use super::script::{RECORD, ScriptRef};
use crate::node::limits::parse_number;
use crate::node::record_fields::{FIELDS, encode_fields, text};
use crate::node::{FenceReading, Keyspace, MemberId, NodeError, RecordWrite};

/// Each request looks up a fence in the hash of the record. Redis would keep up to 512 fields as a list, and search it from its
/// start, unless one value is longer than 64 bytes (`hash-max-listpack-entries` and `-value`). This one is.
const ABOUT: &str = "Record of this server in a set of lock masters. If you delete it, the server counts as one that lost all \
                     locks, and grants none until it has rejoined.";

/// The command that writes a record. Its arguments are documented in `record.lua`.
pub(super) fn encode_write(keyspace: &Keyspace, write: &RecordWrite) -> Cmd {
    let RecordWrite { expected, new_member, begin, floor, .. } = write;
    let mut command = RECORD.command(ScriptRef::Source, 40, 2048);
    command.arg(1).arg(keyspace.record());
    command.arg(text(expected.map(|(member, _)| member))).arg(text(expected.map(|(_, version)| version)));
    command.arg(if *new_member { "new" } else { "" }).arg(text(*floor));
    let begin = begin.iter().map(|(member, length)| format!("{member} {}", millis(*length)));
    command.arg(begin.collect::<Vec<_>>().join(" "));
    for (field, value) in FIELDS.iter().zip(encode_fields(write)) {
        if *field == "epoch" {
            command.arg("about").arg(ABOUT);
        }
        command.arg(field).arg(value);
    }
    command
}

/// The highest of the fences among all fields of a record, if it was written for this run of the server.
pub(super) fn decode_fences(fields: &[(String, String)], run_id: &str) -> Result<Option<FenceReading>, NodeError> {
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
    let Some(member) = field("member").filter(|_| field("run_id").is_some_and(|own| own == run_id)) else {
        return Ok(None);
    };
    let damaged = |text: &str| NodeError::Protocol { reply: format!("damaged record of the node: {text}") };
    let member = MemberId::parse(member).ok_or_else(|| damaged(member))?;
    let is_fence = |field: &str| field.bytes().all(|byte| byte.is_ascii_digit());
    let fences = fields.iter().filter(|(field, _)| is_fence(field));
    let fences = fences.map(|(_, fence)| parse_number(fence).ok_or_else(|| damaged(fence)));
    let highest = fences.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default();
    Ok(Some(FenceReading { member, highest }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::FoundRecord;
    use crate::node::record_fields::decode_record;
    use crate::random::Epoch;

    fn fields(values: [&str; FIELDS.len()]) -> [Option<String>; FIELDS.len()] {
        values.map(|value| Some(value.to_owned()))
    }

    #[test]
    fn a_record_is_read_whole_or_reported() {
        assert_eq!(decode_record(&[const { None }; FIELDS.len()]), Ok(FoundRecord::None));
        let mut found = fields(["00ff-7", "3", "r", "1", "", "", "", "", "", "00ff-7 9 00aa-1 8", "ff"]);
        let Ok(FoundRecord::Record(record)) = decode_record(&found) else { panic!() };
        assert_eq!((record.member, record.version), (MemberId { random: 255, micros: 7 }, 3));
        assert_eq!((record.epoch, record.quarantines.len()), (Some(Epoch::from_bits(255)), 2));
        found[9] = Some("00ff-7".into());
        assert!(matches!(decode_record(&found), Err(NodeError::Protocol { .. })), "half an entry");
        found[9] = None;
        assert!(matches!(decode_record(&found), Err(NodeError::Protocol { .. })), "a field is missing");
    }

    #[test]
    fn a_record_with_a_number_beyond_2_53_is_damaged() {
        let seat = "00ff-7 10.0.0.1:6379";
        for number in [1_u64 << 53, i64::MAX.cast_unsigned(), u64::MAX] {
            let damaged = [
                (0, format!("00ff-{number}")),
                (1, number.to_string()),
                (5, format!("0abc {number} 1000 1000 1 - name\n{seat}")),
                (5, format!("0abc 1 {number} 1000 1 - name\n{seat}")),
                (5, format!("0abc 1 1000 {number} 1 - name\n{seat}")),
                (7, format!("{number}-00ff")),
                (9, format!("00ff-7 {number}")),
            ];
            for (field, value) in damaged {
                let mut found = fields(["00ff-7", "3", "r", "1", "", "", "", "", "", "", "ff"]);
                assert!(matches!(decode_record(&found), Ok(FoundRecord::Record(_))));
                found[field] = Some(value);
                assert!(matches!(decode_record(&found), Err(NodeError::Protocol { .. })), "{found:?}");
            }
            let fence = [("member", "00ff-7"), ("run_id", "r"), ("1", &number.to_string())];
            let fence = fence.map(|(field, value)| (field.to_owned(), value.to_owned()));
            assert!(decode_fences(&fence, "r").is_err());
        }
    }

    #[test]
    fn only_the_format_is_read_from_a_record_of_another_format() {
        let mut found = [const { None }; FIELDS.len()];
        found[3] = Some("3".into());
        assert_eq!(decode_record(&found), Ok(FoundRecord::OtherFormat(3)));
        found[3] = None;
        found[2] = Some("r".into());
        assert!(decode_record(&found).is_err(), "a record without a format is damaged");
    }

    #[test]
    fn the_highest_fence_is_that_of_a_field_which_is_a_number() {
        let fields = [("member", "00ff-7"), ("run_id", "r"), ("version", "99"), ("0", "3"), ("16383", "7")];
        let fields = fields.map(|(field, value)| (field.to_owned(), value.to_owned()));
        let member = MemberId { random: 255, micros: 7 };
        assert_eq!(decode_fences(&fields, "r"), Ok(Some(FenceReading { member, highest: 7 })));
        assert_eq!(decode_fences(&fields, "another run"), Ok(None), "nobody knows what it forgot");
        assert_eq!(decode_fences(&[], "r"), Ok(None));
        let broken = [fields[0].clone(), fields[1].clone(), ("1".to_owned(), "x".to_owned())];
        assert!(decode_fences(&broken, "r").is_err());
    }
}
