use std::future::poll_fn;
use std::sync::Arc;

use tokio::time::Instant;

use super::replies::State;
use super::vote_timer::{VoteReporter, VoteTimer};
use super::{NodeError, NodeFuture, Replies, Reply, Request};
use crate::mutex::Mutex;

/// Sends the reply to one request to the caller that waits for it. Dropping the sender without a reply reports that the connection
/// was lost.
pub struct ReplySender {
    /// `None` once the reply was sent, or if nobody wants it.
    to: Option<Arc<Mutex<State>>>,
    node: usize,
    /// Not boxed: a small part of every request, and with observers, five allocations less for every lock.
    timer: Option<VoteTimer>,
}

impl ReplySender {
    pub(super) fn new(to: Arc<Mutex<State>>, node: usize) -> Self {
        Self { to: Some(to), node, timer: None }
    }

    /// Creates a sender and the future of its reply. With it, a node can be used without the engine, for example in a test.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::NodeError;
    /// use lock_core::node::{Reply, ReplySender};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (reply_to, reply) = ReplySender::channel();
    /// reply_to.send(Ok(Reply::Released)); // as a node does in `submit`
    /// assert_eq!(reply.await, Ok(Reply::Released));
    ///
    /// let (reply_to, reply) = ReplySender::channel();
    /// drop(reply_to);
    /// assert!(matches!(reply.await, Err(NodeError::ConnectionLost { .. })));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point. The reply is then discarded, and [`is_awaited`](Self::is_awaited) returns `false`.
    pub fn channel() -> (Self, NodeFuture<Result<Reply, NodeError>>) {
        let replies = Replies::new(1);
        let sender = replies.sender_for(0);
        let received = async move {
            let next = poll_fn(|cx| replies.poll_next(cx)).await;
            next.map_or_else(|| Err(connection_lost()), |(_, reply)| reply)
        };
        (sender, Box::pin(received))
    }

    /// A sender whose reply nobody wants.
    pub(crate) fn unwanted() -> Self {
        Self { to: None, node: 0, timer: None }
    }

    /// Reports the reply to the observers, if there are any and it is a vote on who gets a lock.
    pub(crate) fn reported(mut self, reporter: &Arc<VoteReporter>, request: &Request) -> Self {
        self.timer = reporter.time(request);
        self
    }

    /// Sends the reply. One with a number beyond 2^53 - 1 is a [`Protocol`](NodeError::Protocol) error.
    pub fn send(mut self, reply: Result<Reply, NodeError>) {
        self.answer(reply);
    }

    /// As [`send`](Self::send). There is one reply: another one goes nowhere.
    pub(crate) fn answer(&mut self, reply: Result<Reply, NodeError>) {
        let Some(to) = self.to.take() else { return };
        let reply = reply.and_then(Reply::check);
        if let Some(timer) = self.timer.take() {
            timer.stop(&reply);
        }
        let (waker, timed) = to.lock().receive(self.node, reply);
        if let Some((timer, written)) = timed {
            timer.majority_replied(written);
        }
        // Woken after the lock is free: the receiver takes it at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Says that the request is being written to the connection now: from now on, the node has its time to reply. If this is not
    /// called, its time starts when the request is submitted. For nodes that keep requests back.
    pub fn written(&self) {
        self.written_at(Instant::now());
    }

    /// As [`written`](Self::written), for requests that are written together.
    pub(crate) fn written_at(&self, now: Instant) {
        if let Some(to) = &self.to {
            to.lock().written(self.node, now);
        }
    }

    /// Whether somebody still waits for the reply.
    pub fn is_awaited(&self) -> bool {
        self.to.as_ref().is_some_and(|state| state.lock().is_awaited(self.node))
    }

    /// How many nodes the round has that the request belongs to; `None` if nobody ever wanted the reply.
    pub(crate) fn nodes(&self) -> Option<usize> {
        self.to.as_ref().map(|state| state.lock().nodes())
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        if self.to.is_some() {
            self.answer(Err(connection_lost()));
        }
    }
}

opaque_debug!(ReplySender, |this| "node": this.node);

fn connection_lost() -> NodeError {
    NodeError::ConnectionLost { reason: "it was closed or stalled".into() }
}
