//! Commands outside the order of requests: how they are sent, and how their answers are read.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value};

use super::classify::{connect_error, is_no_script, node_error};
use super::script::ScriptRef;
use crate::node::NodeError;

/// Sends commands together. Each has its own answer, which may be an error.
pub(super) async fn query(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> Result<Vec<Value>, NodeError> {
    connection.send_packed_commands(pipeline, 0, pipeline.len()).await.map_err(|error| connect_error(&error))
}

/// Sends one command, and reads its answer.
pub(super) async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: Cmd,
) -> Result<T, NodeError> {
    read(connection.send_packed_command(&command).await.map_err(|error| connect_error(&error))?)
}

/// Runs a script by its hash; if the server does not have it, by its source.
pub(super) async fn run(
    connection: &mut MultiplexedConnection,
    command: impl Fn(ScriptRef) -> Cmd,
) -> Result<Value, NodeError> {
    let mut reply = Value::Nil;
    for script in [ScriptRef::Hash, ScriptRef::Source] {
        reply = connection.send_packed_command(&command(script)).await.map_err(|error| node_error(&error))?;
        if !is_no_script(&reply) {
            break;
        }
    }
    match reply {
        Value::ServerError(error) => Err(node_error(&error.into())),
        reply => Ok(reply),
    }
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
