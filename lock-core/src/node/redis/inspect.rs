//! The commands that are not requests: they inspect a server, load the script, and write the node's record.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Pipeline, Value};

use super::classify::{connect_error, node_error};
use super::codec::encode_establish;
use super::script::VOTES;
use crate::node::{Establish, Inspection, Keyspace, NodeError, NodeRecord, Role, SetConfig};
use crate::random::Epoch;

/// Loads the script, so that requests can refer to it by its hash.
pub(super) async fn load_script(connection: &mut MultiplexedConnection) -> Result<(), NodeError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SCRIPT").arg("LOAD").arg(VOTES.source());
    let answer = query(connection, &pipeline, 1).await?.pop().unwrap_or(Value::Nil);
    read::<String>(answer).map(drop)
}

/// Reads everything that decides whether the node is admitted, in one round trip.
pub(super) async fn inspect(
    connection: &mut MultiplexedConnection,
    keyspace: &Keyspace,
) -> Result<Inspection, NodeError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("INFO").cmd("TIME").cmd("HMGET").arg(keyspace.record()).arg(&RECORD_FIELDS);
    pipeline.cmd("PTTL").arg(keyspace.quarantine()).cmd("CONFIG").arg("GET").arg("appendfsync");
    let answers = query(connection, &pipeline, 5).await?;
    let [info, time, record, quarantine, fsync] = <[Value; 5]>::try_from(answers)
        .map_err(|answers| NodeError::Protocol { reply: format!("{} answers to 5 commands", answers.len()) })?;

    let info: String = read(info)?;
    let (seconds, micros): (u64, u64) = read(time)?;
    // Managed servers deny CONFIG. The node then counts as not durable, and a restart means quarantine.
    let fsync: HashMap<String, String> = read(fsync).unwrap_or_default();
    Ok(Inspection {
        run_id: field(&info, "run_id")?.to_owned(),
        version: version(field(&info, "redis_version")?)?,
        role: if field(&info, "role")? == "master" { Role::Master } else { Role::Replica },
        eviction_policy: field(&info, "maxmemory_policy")?.to_owned(),
        durable: field(&info, "aof_enabled")? == "1" && fsync.get("appendfsync").is_some_and(|when| when == "always"),
        clock_micros: seconds.saturating_mul(1_000_000).saturating_add(micros),
        record: read_record(&read(record)?)?,
        quarantine: match read::<i64>(quarantine)? {
            -2 => None,
            // Negative without an end. Somebody else wrote it, and it is not ours to delete.
            remaining => Some(u64::try_from(remaining).map_or(Duration::MAX, Duration::from_millis)),
        },
    })
}

/// Runs `establish.lua`. Returns whether the record was written.
pub(super) async fn establish(
    connection: &mut MultiplexedConnection,
    keyspace: &Keyspace,
    record: &Establish,
) -> Result<bool, NodeError> {
    let mut pipeline = Pipeline::new();
    pipeline.add_command(encode_establish(keyspace, record));
    let answer = query(connection, &pipeline, 1).await?.pop().unwrap_or(Value::Nil);
    match read::<Vec<String>>(answer)?.first().map(String::as_str) {
        Some("ESTABLISHED") => Ok(true),
        Some("CHANGED") => Ok(false),
        other => Err(NodeError::Protocol { reply: format!("{other:?}") }),
    }
}

async fn query(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
    count: usize,
) -> Result<Vec<Value>, NodeError> {
    connection.send_packed_commands(pipeline, 0, count).await.map_err(|error| connect_error(&error))
}

fn read<T: FromRedisValue>(answer: Value) -> Result<T, NodeError> {
    if let Value::ServerError(error) = answer {
        return Err(node_error(&error.into()));
    }
    redis::from_redis_value(answer).map_err(|error| NodeError::Protocol { reply: error.to_string() })
}

fn field<'a>(info: &'a str, name: &str) -> Result<&'a str, NodeError> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| *field == name);
    found.map(|(_, value)| value.trim()).ok_or_else(|| NodeError::Protocol { reply: format!("INFO without {name}") })
}

fn version(text: &str) -> Result<(u32, u32), NodeError> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(NodeError::Protocol { reply: format!("version {text}") }),
    }
}

/// The fields of the record that are not fences.
const RECORD_FIELDS: [&str; 6] = ["run_id", "epoch", "format", "nodes", "max_ttl", "set_name"];

fn read_record(fields: &[Option<String>; RECORD_FIELDS.len()]) -> Result<Option<NodeRecord>, NodeError> {
    if fields.iter().all(Option::is_none) {
        return Ok(None);
    }
    let parse = || {
        let [run_id, epoch, format, nodes, max_ttl, name] = fields;
        Some(NodeRecord {
            run_id: run_id.clone()?,
            epoch: Epoch::parse(epoch.as_deref()?)?,
            config: SetConfig {
                format: format.as_deref()?.parse().ok()?,
                nodes: nodes.as_deref()?.parse().ok()?,
                max_ttl: Duration::from_millis(max_ttl.as_deref()?.parse().ok()?),
                name: name.clone()?,
            },
        })
    };
    let damaged = || NodeError::Protocol { reply: format!("damaged record of the node: {fields:?}") };
    parse().ok_or_else(damaged).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_by_field() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n";
        assert_eq!(field(info, "run_id"), Ok("abc"));
        assert_eq!(version(field(info, "redis_version").unwrap()), Ok((7, 0)));
        assert!(field(info, "role").is_err());
    }

    #[test]
    fn a_record_is_read_whole_or_reported() {
        assert_eq!(read_record(&[const { None }; 6]), Ok(None));
        let mut fields = ["r", "ff", "1", "5", "60000", ""].map(|value| Some(value.to_owned()));
        let name = fields[5].take();
        assert!(matches!(read_record(&fields), Err(NodeError::Protocol { .. })), "the name of the set is missing");
        fields[5] = name;
        let record = read_record(&fields).unwrap().unwrap();
        assert_eq!((record.epoch, record.config.nodes), (Epoch::from_bits(255), 5));
        assert_eq!(record.config.max_ttl, Duration::from_secs(60));
    }
}
