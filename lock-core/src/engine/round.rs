use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NodeSet, Outbox};
use crate::error::NodeError;
use crate::node::{LockKeys, NodeFuture, Operation, Replies, Reply};
use crate::quorum::{RollCall, majority};

/// A reply, and the node that sent it.
pub(crate) struct NodeReply {
    pub(crate) node: usize,
    pub(crate) reply: Result<Reply, NodeError>,
}

/// Requests about one lock that are sent to several nodes, and their replies up to a deadline.
pub(crate) struct Round {
    cluster: Arc<Cluster>,
    keys: LockKeys,
    replies: Replies,
    /// Which seats were asked, and by which roster.
    roll: RollCall,
    /// Requests to nodes to which the first connection is being made. Polling the round sends them, so that nothing is sent after it
    /// was dropped.
    waiting: Vec<WaitingRequest>,
    /// Until when the replies are awaited, if nothing moves it.
    pub(super) deadline: Instant,
    /// How much the deadline may be moved by requests that are written before it.
    time_from_write: Option<TimeFromWrite>,
    /// Whether the deadline was moved because the nodes are late.
    is_late: bool,
    /// Created when a reply has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The time of a node starts when the request to it is written.
struct TimeFromWrite {
    timeout: Duration,
    /// Requests count that are written by then.
    written_by: Instant,
}

/// A request that is sent when the first connection to its node was made or failed.
struct WaitingRequest {
    node: usize,
    operation: Operation,
    joined: NodeFuture<()>,
}

impl Round {
    /// A round whose replies are awaited until `deadline`.
    pub(crate) fn until(cluster: &Arc<Cluster>, keys: &LockKeys, deadline: Instant) -> Self {
        let (cluster, keys, replies) = (Arc::clone(cluster), keys.clone(), Replies::new(cluster.size()));
        Self {
            cluster,
            keys,
            replies,
            roll: RollCall::default(),
            waiting: Vec::new(),
            deadline,
            time_from_write: None,
            is_late: false,
            timer: None,
        }
    }

    /// Awaits the replies until `timeout` after the last request was written that is written before the deadline.
    ///
    /// A request may have to wait behind others before it is written, however fast the node is. One that is not written by the
    /// deadline is given up then: for all that time, the node has not replied to what was written before.
    pub(crate) fn time_from_write(self, timeout: Duration) -> Self {
        Self { time_from_write: Some(TimeFromWrite { timeout, written_by: self.deadline }), ..self }
    }

    /// Takes part in finding out how long a majority takes to reply to what is sent now.
    pub(crate) fn timed(self, now: Instant) -> Self {
        self.replies.time_majority(majority(self.cluster.size()), now, Arc::clone(&self.cluster.answers) as _);
        self
    }

    /// Also sends to nodes that vote by another roster than the first.
    pub(crate) fn by_any_roster(self) -> Self {
        Self { roll: RollCall::by_any_roster(), ..self }
    }

    /// Sends to nodes that vote by the same roster as the nodes of another round.
    pub(crate) fn by_roster_of(self, other: &Self) -> Self {
        Self { roll: other.roll.another(), ..self }
    }

    /// By which roster the nodes have to vote; 0 if no request was sent.
    pub(crate) fn roster(&self) -> u64 {
        self.roll.roster().unwrap_or_default()
    }

    /// Sends an operation to a node. When this returns, the request has either been submitted, or it never will be.
    pub(crate) fn send(&mut self, node: usize, operation: Operation) {
        self.send_or_put(node, operation, None);
    }

    fn send_or_put(&mut self, node: usize, operation: Operation, outbox: Option<&mut Outbox>) {
        let reply_to = self.replies.sender_for(node);
        self.cluster.send(node, &mut self.roll, &self.keys, operation, reply_to, outbox);
    }

    /// Sends an operation to a node that this round may have asked before. Nothing is counted of what is replied from now on.
    pub(crate) fn send_again(&mut self, node: usize, operation: Operation) {
        // Otherwise it would be refused as asked before. A release may be repeated: it deletes only what its own owner has.
        self.roll = self.roll.another();
        self.send(node, operation);
    }

    /// Sends an operation to a node, or puts it into the outbox, if there is one. If the first connection to the node is still being
    /// made, it is sent as soon as that was made or failed.
    pub(super) fn send_when_joined(&mut self, node: usize, operation: Operation, outbox: Option<&mut Outbox>) {
        if let Some(joined) = self.cluster.joining(node) {
            return self.waiting.push(WaitingRequest { node, operation, joined });
        }
        self.send_or_put(node, operation, outbox);
    }

    /// The nodes whose request was not sent, and never will be if the round is dropped now.
    pub(crate) fn unsent(&self) -> NodeSet {
        self.waiting.iter().map(|request| request.node).collect()
    }

    /// Wakes the waiting task only when a verdict is possible: when a majority of the nodes has replied. The votes of
    /// `known` nodes are known in advance and count as replies.
    pub(crate) fn await_majority_but(&self, known: usize) {
        self.replies.wake_after(majority(self.cluster.size()).saturating_sub(known));
    }

    /// Wakes the waiting task only when all nodes have replied.
    pub(crate) fn await_all(&self) {
        self.replies.wake_after(usize::MAX);
    }

    /// Wakes the waiting task only when all nodes have replied, and for each error before that.
    pub(crate) fn await_all_or_error(&self) {
        self.await_all();
        self.replies.wake_for_errors();
    }

    /// Wakes the waiting task for each reply.
    pub(crate) fn await_each(&self) {
        self.replies.wake_after(1);
    }

    /// Prepares the round for being awaited by another task, which may be on another runtime.
    pub(crate) fn detach(&mut self) {
        self.timer = None;
    }

    /// Sets another deadline, and wakes the waiting task for each reply.
    pub(crate) fn extend_until(&mut self, deadline: Instant) {
        (self.deadline, self.timer) = (deadline, None);
        self.await_each();
    }

    /// Awaits the replies until this deadline at most, whenever their requests are written.
    pub(crate) fn await_no_longer_than(&mut self, deadline: Instant) {
        if deadline < self.deadline {
            (self.deadline, self.timer, self.time_from_write) = (deadline, None, None);
        }
    }

    /// The next reply before the deadline; `None` after it, or when all have arrived.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost if the future is dropped.
    pub(crate) async fn next_in_time(&mut self) -> Option<NodeReply> {
        poll_fn(|cx| match self.poll_replies(cx) {
            Poll::Ready(reply) => Poll::Ready(reply),
            Poll::Pending => self.poll_deadline(cx).map(|()| None),
        })
        .await
    }

    /// The next reply, whatever the deadline; `None` when all have arrived. For callers that have their own timer.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost if the future is dropped.
    pub(crate) async fn next_whenever(&mut self) -> Option<NodeReply> {
        poll_fn(|cx| self.poll_replies(cx)).await
    }

    /// The next reply; after the deadline, an error for each that is missing. `None` when all have arrived.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<NodeReply> {
        let in_time = self.next_in_time().await;
        in_time.or_else(|| self.give_up_one())
    }

    /// As [`next`](Self::next). But if fewer than a majority have replied by the deadline, the replies are awaited for longer, once:
    /// until `late`, which is told the deadline, or until nobody waits any more.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost if the future is dropped.
    pub(crate) async fn next_or_late(
        &mut self,
        closing: &CancellationToken,
        late: impl FnOnce(Instant) -> Instant,
    ) -> Option<NodeReply> {
        if !self.is_late
            && let Some(reply) = self.next_in_time().await
        {
            return Some(reply);
        }
        if !self.is_late {
            // An error is a reply: it does not get better by waiting.
            if self.replies.received() >= majority(self.cluster.size()) {
                return self.next().await;
            }
            // Once in a round: a node that is silent for all of that time, too, is away.
            self.is_late = true;
            (self.deadline, self.timer) = (self.deadline.max(late(self.deadline)), None);
        }
        // Boxed, because it is rare.
        let reply = Box::pin(closing.run_until_cancelled(self.next())).await;
        if let Some(reply) = reply {
            return reply;
        }
        // The manager closes: what has not come counts as missing, so that the attempt has its verdict now.
        self.extend_until(Instant::now());
        self.next().await
    }

    /// Takes a reply that has arrived.
    pub(crate) fn take(&self) -> Option<NodeReply> {
        self.replies.take().map(|(node, reply)| self.received(node, reply))
    }

    /// Whether no reply is pending and every one that arrived was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.replies.is_done()
    }

    /// The timeout of one of the nodes that have not replied.
    fn give_up_one(&mut self) -> Option<NodeReply> {
        if let Some(node) = self.replies.give_up_one() {
            return Some(NodeReply { node, reply: Err(self.cluster.timed_out(node)) });
        }
        let WaitingRequest { node, .. } = self.waiting.pop()?;
        Some(NodeReply { node, reply: Err(NodeError::Unreachable { reason: "connecting".into() }) })
    }

    fn received(&self, node: usize, reply: Result<Reply, NodeError>) -> NodeReply {
        if let Err(error) = &reply {
            self.cluster.report(node, error);
        }
        NodeReply { node, reply }
    }

    /// The next reply, whatever the deadline; `None` when all have arrived.
    pub(super) fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<Option<NodeReply>> {
        // Before the replies: a request whose connection is made must not wait for another node to answer.
        let mut at = 0;
        while let Some(request) = self.waiting.get_mut(at) {
            if request.joined.as_mut().poll(cx).is_ready() {
                let WaitingRequest { node, operation, .. } = self.waiting.remove(at);
                self.send(node, operation);
            } else {
                at += 1;
            }
        }
        match self.replies.poll_next(cx) {
            Poll::Ready(Some((node, reply))) => Poll::Ready(Some(self.received(node, reply))),
            Poll::Ready(None) if self.waiting.is_empty() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        ready!(timer.as_mut().poll(cx));
        // Taken, so that this moves the deadline once: requests that are written later cannot move it again and again.
        let Some(TimeFromWrite { timeout, written_by }) = self.time_from_write.take() else {
            return Poll::Ready(());
        };
        if let Some(written) = self.replies.last_written(written_by) {
            self.deadline = self.deadline.max(written + timeout);
            timer.as_mut().reset(self.deadline);
        }
        timer.as_mut().poll(cx)
    }
}
