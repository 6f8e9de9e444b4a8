//! The record of the node, as the columns of its row, and the statements that write it and read the highest fence.

use tokio_postgres::types::ToSql;

use super::classify::node_error;
use super::codec::{column, micros, number};
use super::session::Session;
use crate::node::record_fields::{FIELDS, decode_fields, encode_fields, text, written};
use crate::node::{FenceReading, FoundRecord, Keyspace, MemberId, NodeError, NodeRecord, RecordWrite};

/// Reads the fields of a record.
pub(super) fn decode(fields: Option<Vec<String>>) -> Result<FoundRecord, NodeError> {
    let Some(fields) = fields else { return Ok(FoundRecord::None) };
    let damaged = || NodeError::Protocol { reply: format!("damaged record of the node: {fields:?}") };
    let present: Vec<Option<String>> = fields.iter().cloned().map(Some).collect();
    let Ok(present) = <[_; FIELDS.len()]>::try_from(present) else { return Err(damaged()) };
    match fields[3].parse() {
        Ok(NodeRecord::FORMAT) => decode_fields(&present).map(FoundRecord::Record).ok_or_else(damaged),
        Ok(other) => Ok(FoundRecord::OtherFormat(other)),
        Err(_) => Err(damaged()),
    }
}

/// Writes the record. Returns the one that was written, or `None` if the present record is not the expected one.
pub(super) async fn write_record(
    session: &Session,
    keyspace: &Keyspace,
    write: &RecordWrite,
) -> Result<Option<NodeRecord>, NodeError> {
    let RecordWrite { expected, new_member, begin, floor, .. } = write;
    let (member, version) = (text(expected.map(|(member, _)| member)), text(expected.map(|(_, version)| version)));
    let begin_members: Vec<String> = begin.iter().map(|(member, _)| member.to_string()).collect();
    let begin_micros: Vec<i64> = begin.iter().map(|(_, length)| micros(*length)).collect();
    let (record, fields, floor) = (keyspace.record(), encode_fields(write).to_vec(), floor.map(number));
    let parameters: [&(dyn ToSql + Sync); 9] =
        [session.id.as_text(), &record, &member, &version, &fields, new_member, &floor, &begin_members, &begin_micros];
    let row = session.answer(session.client.query_opt(&session.write_record, &parameters)).await;
    let Some(row) = row.map_err(|error| node_error(&error))? else { return Ok(None) };
    let (member, quarantines): (String, String) = (column(&row, 0)?, column(&row, 1)?);
    let unexpected = || NodeError::Protocol { reply: format!("{member} {quarantines}") };
    written(write, &member, &quarantines).ok_or_else(unexpected).map(Some)
}

/// Reads the highest fence, if the record was written for this memory.
pub(super) async fn read_fences(session: &Session, keyspace: &Keyspace) -> Result<Option<FenceReading>, NodeError> {
    let row = session
        .answer(session.client.query_opt(&session.read_fences, &[session.id.as_text(), &keyspace.record()]))
        .await;
    let Some(row) = row.map_err(|error| node_error(&error))? else { return Ok(None) };
    let (member, highest): (String, i64) = (column(&row, 0)?, column(&row, 1)?);
    let damaged = || NodeError::Protocol { reply: format!("damaged record of the node: {member} {highest}") };
    let member = MemberId::parse(&member).ok_or_else(damaged)?;
    Ok(Some(FenceReading { member, highest: u64::try_from(highest).map_err(|_| damaged())? }))
}
