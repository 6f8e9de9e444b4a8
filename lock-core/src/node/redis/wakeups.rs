//! The wake-ups of a waiter: messages on a channel, over the connection that carries requests.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::FutureExt as _;
use futures_util::stream::{Stream, StreamExt as _};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::classify::{connect_error, node_error};
use super::connect::CONNECT_TIMEOUT;
use super::pushes::Pushes;
use crate::node::{NodeError, Wakeup, Wakeups};

/// A subscription to a channel. Once it is dropped, the server counts this connection as a listener no more.
struct Subscription {
    messages: mpsc::Receiver<Wakeup>,
    connection: MultiplexedConnection,
    pushes: Pushes,
    /// What ends it; `None` if the server refused it.
    unsubscribe: Option<Cmd>,
}

/// Subscribes to a channel. The stream ends when the connection must not be used any more.
pub(super) async fn subscribe(
    connection: MultiplexedConnection,
    pushes: Pushes,
    channel: &str,
) -> Result<Wakeups, NodeError> {
    // In the older protocol, a connection that has subscribed would execute no request.
    let messages = pushes.wakeups(channel)?;
    let subscribe = redis::cmd("SUBSCRIBE").arg(channel).take();
    let unsubscribe = redis::cmd("UNSUBSCRIBE").arg(channel).set_no_response(true).take();
    let gone = pushes.gone().clone();
    // From here on, to drop it unsubscribes.
    let mut subscription = Subscription { messages, connection, pushes, unsubscribe: Some(unsubscribe) };
    // The confirmation is a message, which redis-rs takes for the reply as well; a refusal is the reply.
    match timeout(CONNECT_TIMEOUT, subscription.connection.send_packed_command(&subscribe)).await {
        Ok(Ok(Value::ServerError(error))) => {
            subscription.unsubscribe = None;
            return Err(node_error(&error.into()));
        }
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(connect_error(&error)),
        Err(_) => return Err(NodeError::TimedOut),
    }
    Ok(Box::pin(subscription.take_until(gone.cancelled_owned())))
}

impl Stream for Subscription {
    type Item = Wakeup;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Wakeup>> {
        self.messages.poll_recv(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(unsubscribe) = self.unsubscribe.take().filter(|_| !self.pushes.gone().is_cancelled()) else { return };
        // There is room for it, unless the server does not keep up.
        if self.connection.send_packed_command(&unsubscribe).now_or_never().is_none() {
            self.pushes.gone().cancel();
        }
    }
}
