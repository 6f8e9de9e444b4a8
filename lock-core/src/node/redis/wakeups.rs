//! A connection of its own on which the server calls this process. It waits in a `BLPOP`, which nothing else could pass.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::classify::{connect_error, node_error};
use super::connect::Connected;
use super::node::{CONNECT_TIMEOUT, Shared};
use crate::node::{NodeError, Refusal, Wakeup, WakeupKind};

/// How long the server is asked to wait for a call. Then it is asked anew: a link that broke unseen shows by that.
const LISTEN_FOR: Duration = Duration::from_secs(5);

/// Waits for a call in a list, and takes it; none if there was none for a while.
pub(super) async fn listen(node: &Shared, list: &str) -> Result<Option<Wakeup>, NodeError> {
    // Held all the time: there is never a second connection, and one that failed is not put back.
    let mut place = node.listening.lock().await;
    let mut connection = match place.take() {
        Some(connection) => connection,
        None => {
            let Connected { connection, driver } = node.connect(CancellationToken::new()).await?;
            tokio::spawn(driver);
            connection
        }
    };
    let wait = redis::cmd("BLPOP").arg(list).arg(LISTEN_FOR.as_secs()).take();
    let answer = match timeout(LISTEN_FOR + CONNECT_TIMEOUT, connection.send_packed_command(&wait)).await {
        Ok(answer) => answer.map_err(|error| connect_error(&error))?,
        Err(_) => return Err(NodeError::TimedOut),
    };
    let answer = answer.extract_error().map_err(|error| node_error(&error));
    // To connect anew gives no rights. Other errors may be of this connection: behind a new one there may be another server.
    if matches!(answer, Ok(_) | Err(NodeError::Refused(Refusal::Permission { .. }))) {
        *place = Some(connection);
    }
    // The list's name, and the call.
    let called: Option<(String, String)> = redis::from_redis_value(answer?)
        .map_err(|error: redis::ParsingError| NodeError::Protocol { answer: error.to_string() })?;
    Ok(called.and_then(|(_, call)| read(&call)))
}

/// A call, as `queue.lua` writes it: whose turn, and the lock key.
fn read(message: &str) -> Option<Wakeup> {
    let kind = match message.get(..1)? {
        "T" => WakeupKind::Reserved,
        "S" => WakeupKind::Next,
        _ => return None,
    };
    Some(Wakeup { lock_key: message[1..].to_owned(), kind })
}
