use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use tokio::runtime;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::unconstrained;

use super::message::{Message, Submission};
use super::pushes::Pushes;
use super::replication::Replication;
use super::worker::Worker;
use crate::node::{NodeError, ReplySender, Request};
use crate::task::Task;

/// How many submissions may wait to be written: of one request each, or of as many as a set has locks. Beyond it the node is not
/// keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// Sends requests over one connection, in the order in which they are submitted.
#[derive(Clone)]
pub(super) struct Handle {
    submissions: mpsc::Sender<Submission>,
}

impl Handle {
    /// Starts a worker on `connection`. It ends, and cancels the `gone` of its `pushes`, when the connection is lost or stalls, or when all handles
    /// were dropped and every request is answered. It runs on the present runtime.
    pub(super) fn spawn(
        connection: MultiplexedConnection,
        driver: BoxFuture<'static, ()>,
        pushes: Pushes,
        replication: Option<Replication>,
    ) -> (Self, Task) {
        let (sender, submissions) = mpsc::channel(CAPACITY);
        // Unconstrained: the worker lets other tasks run before it writes what they submit, and again when it waits for the socket or spins.
        let worker = unconstrained(Worker::new(connection, driver, submissions, pushes, replication).run());
        (Self { submissions: sender }, Task::spawn_on(&runtime::Handle::current(), worker))
    }

    /// Submits a request. It has its place in the order when this returns.
    pub(super) fn submit(&self, request: Request, reply_to: ReplySender) {
        self.send(Submission { first: Message { request, reply_to }, others: Vec::new() });
    }

    /// Submits requests that are written together. They have their place in the order when this returns.
    pub(super) fn submit_all(&self, requests: Vec<(Request, ReplySender)>) {
        let mut messages = requests.into_iter().map(|(request, reply_to)| Message { request, reply_to });
        if let Some(first) = messages.next() {
            self.send(Submission { first, others: messages.collect() });
        }
    }

    fn send(&self, submission: Submission) {
        let (error, unsent) = match self.submissions.try_send(submission) {
            Ok(()) => return,
            Err(TrySendError::Full(unsent)) => (NodeError::Overloaded, unsent),
            Err(TrySendError::Closed(unsent)) => (NodeError::Unreachable { reason: "connection lost".into() }, unsent),
        };
        for message in unsent.into_messages() {
            message.reply_to.send(Err(error.clone()));
        }
    }
}
