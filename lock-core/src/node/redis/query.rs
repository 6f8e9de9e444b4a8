//! Commands outside the order of requests: how they are sent, and how their answers are read.

use std::sync::atomic::Ordering;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value};

use super::classify::{connect_error, is_no_script, node_error};
use super::link::Session;
use super::script::ScriptRef;
use crate::node::NodeError;

/// Sends commands together. Each has its own answer, which may be an error.
pub(super) async fn query(connection: &MultiplexedConnection, pipeline: &Pipeline) -> Result<Vec<Value>, NodeError> {
    let answers = connection.clone().send_packed_commands(pipeline, 0, pipeline.len()).await;
    answers.map_err(|error| connect_error(&error))
}

impl Session {
    /// Sends one command, and reads its answer, unless the server lost its data before it gave it.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, NodeError> {
        let answer = self.connection.clone().send_packed_command(&command).await;
        self.pushes.checked(answer.map_err(|error| connect_error(&error)).and_then(read))
    }

    /// Runs a script by its hash; if the server does not have it, by its source. The command learns whether it has to declare all of its
    /// keys. The answer is no error, and one that the server gave before it lost its data, if it did.
    pub(super) async fn run(&self, command: impl Fn(ScriptRef, bool) -> Cmd) -> Result<Value, NodeError> {
        let (mut connection, mut reply) = (self.connection.clone(), Value::Nil);
        for script in [ScriptRef::Hash, ScriptRef::Source] {
            let command = command(script, self.declares_all.load(Ordering::Relaxed));
            reply = connection.send_packed_command(&command).await.map_err(|error| node_error(&error))?;
            if !is_no_script(&reply) {
                break;
            }
        }
        self.pushes.checked(read(reply))
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
