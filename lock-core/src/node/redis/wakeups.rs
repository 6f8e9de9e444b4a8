//! The connection on which the server wakes this process. It waits in a `BLPOP`, behind which every other command would be stuck:
//! so it is a second one.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::classify::{connect_error, node_error};
use super::connect::{CONNECT_TIMEOUT, Connected};
use crate::node::{NodeError, Refusal, Wakeup, WakeupKind};

/// How long one `BLPOP` waits. Each one that ends shows that the link still works.
const LISTEN_FOR: Duration = Duration::from_secs(5);

/// The connection for wake-ups, once somebody has waited for one.
#[derive(Default)]
pub(super) struct WakeupConnection(Mutex<Option<MultiplexedConnection>>);

/// Waits for a wake-up in this list and takes it; `None` if none came within [`LISTEN_FOR`]. Opens the connection by `connect` if
/// there is none.
pub(super) async fn listen(
    connection: &WakeupConnection,
    connect: impl Future<Output = Result<Connected, NodeError>>,
    list: &str,
) -> Result<Option<Wakeup>, NodeError> {
    // Locked while listening, so that there are never two connections. One that failed is not put back.
    let mut listening = connection.0.lock().await;
    let mut connection = match listening.take() {
        Some(connection) => connection,
        None => {
            let Connected { connection, driver } = connect.await?;
            tokio::spawn(driver);
            connection
        }
    };
    let wait = redis::cmd("BLPOP").arg(list).arg(LISTEN_FOR.as_secs()).take();
    let reply = match timeout(LISTEN_FOR + CONNECT_TIMEOUT, connection.send_packed_command(&wait)).await {
        Ok(reply) => reply.map_err(|error| connect_error(&error))?,
        Err(_) => return Err(NodeError::TimedOut),
    };
    let reply = reply.extract_error().map_err(|error| node_error(&error));
    // A new connection would not have more permissions. After other errors it may help: there may be another server behind it.
    if matches!(reply, Ok(_) | Err(NodeError::Refused(Refusal::Permission { .. }))) {
        *listening = Some(connection);
    }
    let popped: Option<(String, String)> = redis::from_redis_value(reply?)
        .map_err(|error: redis::ParsingError| NodeError::Protocol { reply: error.to_string() })?;
    Ok(popped.and_then(|(_list, message)| parse(&message)))
}

/// A wake-up as `queue.lua` writes it: a letter, and the lock key.
fn parse(message: &str) -> Option<Wakeup> {
    let kind = match message.get(..1)? {
        "T" => WakeupKind::Reserved,
        "S" => WakeupKind::Next,
        _ => return None,
    };
    Some(Wakeup { lock_key: message[1..].to_owned(), kind })
}
