//! A connection of its own on which the server calls this process. It waits in a `BLPOP`, which nothing else could pass.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::classify::connect_error;
use super::{CONNECT_TIMEOUT, NEVER, Shared};
use crate::node::{Call, NodeError, Turn};

/// How long the server is asked to wait for a call. Then it is asked anew: a link that broke unseen shows by that.
const LISTEN_FOR: Duration = Duration::from_secs(5);
/// Calls that are taken at once.
const MOST_CALLS: usize = 64;

/// Waits for calls in a list, and takes them; none if there was none for a while.
pub(super) async fn listen(node: &Shared, list: &str) -> Result<Vec<Call>, NodeError> {
    // Held all the time: there is never a second connection, and one that failed is not put back.
    let mut place = node.listening.lock().await;
    let mut connection = match place.take() {
        Some(connection) => connection,
        None => connect(node).await?,
    };
    let mut pipeline = Pipeline::new();
    pipeline.cmd("BLPOP").arg(list).arg(LISTEN_FOR.as_secs());
    pipeline.cmd("LPOP").arg(list).arg(MOST_CALLS);
    let listening = connection.send_packed_commands(&pipeline, 0, 2);
    let answers = match timeout(LISTEN_FOR + CONNECT_TIMEOUT, listening).await {
        Ok(answers) => answers.map_err(|error| connect_error(&error))?,
        Err(_) => return Err(NodeError::TimedOut),
    };
    *place = Some(connection);
    let mut calls = Vec::new();
    let [first, more] = <[Value; 2]>::try_from(answers).unwrap_or([Value::Nil, Value::Nil]);
    // The list's name and the call; then the calls.
    let first: Option<(String, String)> = redis::from_redis_value(first).map_err(|error| unexpected(&error))?;
    let more: Option<Vec<String>> = redis::from_redis_value(more).map_err(|error| unexpected(&error))?;
    calls.extend(first.as_ref().and_then(|(_, call)| read(call)));
    calls.extend(more.iter().flatten().filter_map(|call| read(call)));
    Ok(calls)
}

async fn connect(node: &Shared) -> Result<MultiplexedConnection, NodeError> {
    let connecting = (node.factory)(CancellationToken::new());
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => {
            let mut connection = connected.map_err(|error| connect_error(&error))?;
            connection.set_response_timeout(NEVER);
            Ok(connection)
        }
        Err(_) => Err(NodeError::Unreachable { reason: "no answer while connecting".into() }),
    }
}

/// A call, as `queue.lua` writes it: whose turn, and the lock key.
fn read(call: &str) -> Option<Call> {
    let turn = match call.get(..1)? {
        "T" => Turn::Ours,
        "S" => Turn::Next,
        _ => return None,
    };
    Some(Call { lock: call[1..].to_owned(), turn })
}

fn unexpected(error: &redis::ParsingError) -> NodeError {
    NodeError::Protocol { answer: error.to_string() }
}
