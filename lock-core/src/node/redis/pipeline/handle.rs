use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use tokio::runtime;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::message::Message;
use super::worker::Worker;
use crate::node::{NodeError, ReplySender, Request};
use crate::task::Task;

/// How many requests may wait to be written. Beyond it the node is not keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// Sends requests over one connection, in the order in which they are submitted.
#[derive(Clone)]
pub(in crate::node::redis) struct Handle {
    messages: mpsc::Sender<Message>,
}

impl Handle {
    /// Starts a worker on `connection`. It ends, and cancels `gone`, when the connection is lost or stalls, or when all handles
    /// were dropped and every request is answered. It runs on the present runtime.
    pub(in crate::node::redis) fn spawn(
        connection: MultiplexedConnection,
        driver: BoxFuture<'static, ()>,
        gone: CancellationToken,
    ) -> (Self, Task) {
        let (sender, messages) = mpsc::channel(CAPACITY);
        // Unconstrained: the worker lets other tasks run before each write, and ends every pass by waiting for the socket.
        let worker = unconstrained(Worker::new(connection, gone).run(driver, messages));
        (Self { messages: sender }, Task::spawn_on(&runtime::Handle::current(), worker))
    }

    /// Submits a request. It has its place in the order when this returns.
    pub(in crate::node::redis) fn submit(&self, request: Request, reply_to: ReplySender) {
        let (error, message) = match self.messages.try_send(Message { request, reply_to }) {
            Ok(()) => return,
            Err(TrySendError::Full(message)) => (NodeError::Overloaded, message),
            Err(TrySendError::Closed(message)) => {
                (NodeError::Unreachable { reason: "connection lost".into() }, message)
            }
        };
        message.reply_to.send(Err(error));
    }
}
