//! The wake-ups of a waiter: messages on a channel, over the connection that carries requests.

use futures_util::stream::{StreamExt as _, poll_fn};
use redis::Value;
use tokio::time::timeout;

use super::classify::{connect_error, node_error};
use super::connect::CONNECT_TIMEOUT;
use super::session::Session;
use crate::node::{Keyspace, NodeError, Wakeups};
use crate::random::WaiterId;

impl Session {
    /// Subscribes to the channel of a waiter. The stream ends when the connection must not be used any more, and the subscription with the
    /// connection: the engine listens for as long as it uses that.
    pub(super) async fn wakeups(&self, keyspace: &Keyspace, waiter: WaiterId) -> Result<Wakeups, NodeError> {
        let channel = keyspace.wakeup_channel(waiter);
        // In the older protocol, a connection that has subscribed would execute no request.
        let mut messages = self.pushes.wakeups(&channel)?;
        let subscribe = if keyspace.slot().is_some() { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        let (mut connection, subscribe) = (self.connection.clone(), redis::cmd(subscribe).arg(&channel).take());
        // The confirmation is a message, which redis-rs takes for the reply as well; a refusal is the reply.
        match timeout(CONNECT_TIMEOUT, connection.send_packed_command(&subscribe)).await {
            Ok(Ok(Value::ServerError(error))) => return Err(node_error(&error.into())),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(connect_error(&error)),
            Err(_) => return Err(NodeError::TimedOut),
        }
        let messages = poll_fn(move |cx| messages.poll_recv(cx));
        Ok(Box::pin(messages.take_until(self.pushes.gone().clone().cancelled_owned())))
    }
}
