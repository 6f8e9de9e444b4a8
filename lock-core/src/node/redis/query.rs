//! Commands outside the order of requests: how several are sent together, and how their answers are read.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Pipeline, Value};

use super::classify::{connect_error, node_error};
use crate::node::limits::parse_number;
use crate::node::{Holder, LockState, NodeError, OwnerId, Reader};

/// Sends commands together. Each has its own answer, which may be an error.
pub(super) async fn query(connection: &MultiplexedConnection, pipeline: &Pipeline) -> Result<Vec<Value>, NodeError> {
    let answers = connection.clone().send_packed_commands(pipeline, 0, pipeline.len()).await;
    answers.map_err(|error| connect_error(&error))
}

/// Reads an answer, which may be an error.
pub(super) fn read<T: FromRedisValue>(answer: Value) -> Result<T, NodeError> {
    if let Value::ServerError(error) = answer {
        return Err(node_error(&error.into()));
    }
    redis::from_redis_value(answer).map_err(|error| NodeError::Protocol { reply: error.to_string() })
}

/// The error of an answer that no server gives.
pub(super) fn unexpected(answer: &Value) -> NodeError {
    NodeError::Protocol { reply: format!("{answer:?}") }
}

/// What the server says of a lock.
pub(super) fn state(lock: Value) -> Result<LockState, NodeError> {
    // Without the reply: it may have the owner id of the holder.
    let malformed = || NodeError::Protocol { reply: "a malformed state of a lock".to_owned() };
    read_state(lock).ok_or_else(malformed)
}

/// What the server says of a lock: holder, remaining time, fence, how many wait, owners that were evicted, readers.
type Fields = (Option<Vec<u8>>, i64, Vec<u8>, i64, Option<Vec<u8>>, Vec<(Vec<u8>, i64)>);

fn read_state(lock: Value) -> Option<LockState> {
    if matches!(&lock, Value::BulkString(text) if text == b"T") {
        return Some(LockState { holder: Some(Holder::NotALock), ..LockState::default() });
    }
    let (holder, remaining, fence, waiters, evicted, readers): Fields = redis::from_redis_value(lock).ok()?;
    let millis = |number| u64::try_from(number).ok().map(Duration::from_millis);
    let reader = |(owner, remaining): (Vec<u8>, i64)| {
        Some(Reader { owner: OwnerId::parse(&owner)?, remaining: millis(remaining)? })
    };
    let evicted = evicted.as_deref().map(|owners| owners.split(|byte| *byte == b' ').map(OwnerId::parse).collect());
    Some(LockState {
        holder: holder.as_deref().map(Holder::from_value),
        // Negative: there is no key, or it does not expire.
        remaining: millis(remaining),
        fence: number(&fence)?,
        waiters: u32::try_from(waiters).ok()?,
        evicted: evicted.unwrap_or_else(|| Some(Vec::new()))?,
        readers: readers.into_iter().map(reader).collect::<Option<_>>()?,
    })
}

pub(super) fn number(digits: &[u8]) -> Option<u64> {
    parse_number(std::str::from_utf8(digits).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn the_state_of_a_lock_is_read_whole_or_reported() {
        let owner = OwnerId::from_bits(7);
        let evicted = text(&format!("{owner} {}", OwnerId::from_bits(8)));
        let fields =
            [text(&owner.to_string()), Value::Int(1500), text("12"), Value::Int(3), evicted, Value::Array(Vec::new())];
        let read = state(Value::Array(fields.to_vec())).unwrap();
        assert_eq!((read.holder, read.remaining), (Some(Holder::Owner(owner)), Some(Duration::from_millis(1500))));
        assert_eq!((read.fence, read.waiters, read.evicted.len()), (12, 3, 2));
        let free = [Value::Nil, Value::Int(-2), text("0"), Value::Int(0), Value::Nil, Value::Array(Vec::new())];
        let read = state(Value::Array(free.to_vec())).unwrap();
        assert_eq!((read.holder, read.remaining, read.fence), (None, None, 0));
        let shared = [text(OwnerId::SHARED), Value::Int(9), text("3"), Value::Int(0), Value::Nil];
        let readers = [text(&owner.to_string()), Value::Int(9)];
        let read = state(Value::Array([&shared[..], &[Value::Array(readers.to_vec())]].concat())).unwrap();
        assert_eq!(read.holder, Some(Holder::Readers));
        assert_eq!(read.readers, [Reader { owner, remaining: Duration::from_millis(9) }]);
        assert_eq!(state(text("T")).unwrap().holder, Some(Holder::NotALock));

        let odd = [
            (0, Value::Int(1)),
            (1, text("soon")),
            (2, text("9007199254740992")),
            (2, text("x")),
            (3, Value::Int(-1)),
            (4, text("somebody")),
            (5, Value::Int(1)),
            (5, Value::Array(vec![text(&owner.to_string())])),
        ];
        for (field, value) in odd {
            let mut fields = fields.to_vec();
            fields[field] = value;
            assert!(matches!(state(Value::Array(fields)), Err(NodeError::Protocol { .. })), "{field}");
        }
        assert!(state(Value::Array(fields[..5].to_vec())).is_err());
        assert!(state(Value::Nil).is_err());
    }
}
