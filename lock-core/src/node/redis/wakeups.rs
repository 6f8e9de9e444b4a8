//! The wake-ups of a waiter: messages on a channel, over the connection that carries requests.

use futures_util::future::FutureExt as _;
use futures_util::stream::{StreamExt as _, poll_fn};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::classify::{connect_error, node_error};
use super::connect::CONNECT_TIMEOUT;
use super::pushes::Pushes;
use super::session::Session;
use crate::node::{Keyspace, NodeError, Wakeup, Wakeups};
use crate::random::WaiterId;

/// A subscription to a channel. Once it is dropped, the server counts this connection as a listener no more.
struct Subscription {
    messages: mpsc::Receiver<Wakeup>,
    connection: MultiplexedConnection,
    pushes: Pushes,
    end: End,
}

/// What ends a subscription.
enum End {
    /// Nothing: the server refused it.
    None,
    /// A command.
    Unsubscribe(Cmd),
    /// To give up the connection, if the channel is one of a slot. When the slot moves, a server ends such a subscription unasked, and
    /// redis-rs takes what it says then for the reply to a request. So no request has that reply: see [`Pushes`].
    Close,
}

impl Session {
    /// Subscribes to the channel of a waiter. The stream ends when the connection must not be used any more.
    pub(super) async fn wakeups(&self, keyspace: &Keyspace, waiter: WaiterId) -> Result<Wakeups, NodeError> {
        let (connection, pushes, channel) =
            (self.connection.clone(), self.pushes.clone(), keyspace.wakeup_channel(waiter));
        // In the older protocol, a connection that has subscribed would execute no request.
        let messages = pushes.wakeups(&channel)?;
        let unsubscribe = || redis::cmd("UNSUBSCRIBE").arg(&channel).set_no_response(true).take();
        let (subscribe, end) = match keyspace.slot() {
            Some(_) => ("SSUBSCRIBE", End::Close),
            None => ("SUBSCRIBE", End::Unsubscribe(unsubscribe())),
        };
        let subscribe = redis::cmd(subscribe).arg(&channel).take();
        let gone = pushes.gone().clone();
        // From here on, to drop it unsubscribes.
        let mut subscription = Subscription { messages, connection, pushes, end };
        // The confirmation is a message, which redis-rs takes for the reply as well; a refusal is the reply.
        match timeout(CONNECT_TIMEOUT, subscription.connection.send_packed_command(&subscribe)).await {
            Ok(Ok(Value::ServerError(error))) => {
                subscription.end = End::None;
                return Err(node_error(&error.into()));
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(connect_error(&error)),
            Err(_) => return Err(NodeError::TimedOut),
        }
        let messages = poll_fn(move |cx| subscription.messages.poll_recv(cx));
        Ok(Box::pin(messages.take_until(gone.cancelled_owned())))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.pushes.gone().is_cancelled() {
            return;
        }
        let is_ended = match std::mem::replace(&mut self.end, End::None) {
            End::None => true,
            // There is room for it, unless the server does not keep up.
            End::Unsubscribe(unsubscribe) => self.connection.send_packed_command(&unsubscribe).now_or_never().is_some(),
            End::Close => false,
        };
        if !is_ended {
            self.pushes.gone().cancel();
        }
    }
}
