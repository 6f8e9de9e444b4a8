use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::{NodeError, Reply, ReplySender};
use crate::mutex::Mutex;

/// Is told how long it took until a majority had replied to a round.
pub(crate) trait MajorityTimer: Send + Sync {
    /// It replies now to requests that were written then, in time or when nobody waits any longer.
    fn majority_replied(&self, written: Instant);
}

/// The replies of several nodes to one round of requests.
///
/// They share one buffer, instead of a channel each, so that the receiver is woken when there are enough replies for a verdict
/// and not for each of them. Woken for each, a client with 64 or more callers of distinct locks on five nodes spends 5 to 10 %
/// more processor time.
pub(crate) struct Replies(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    /// One for each node.
    slots: Vec<Slot>,
    /// How many slots are pending.
    pending: usize,
    received: usize,
    /// How many replies wake the receiver. It is always woken when none is pending.
    wake_after: usize,
    /// Whether each error wakes it, too.
    wake_for_errors: bool,
    /// False once the receiver was dropped.
    wanted: bool,
    waker: Option<Waker>,
    /// How many nodes have replied without an error, in time or late.
    answered: usize,
    majority: Option<Majority>,
}

/// Who is told when a majority has replied.
struct Majority {
    timer: Arc<dyn MajorityTimer>,
    of: usize,
    /// When the round began.
    since: Instant,
}

/// Who is to be told, and when the requests were written.
pub(super) type Timed = (Arc<dyn MajorityTimer>, Instant);

/// The reply of a node: not asked for, pending, given up, or received.
enum Slot {
    Empty,
    /// With when the request was written, if that is known.
    Pending(Option<Instant>),
    /// The same. If a reply comes all the same, it only shows how long the node took.
    GivenUp(Option<Instant>),
    Received(Result<Reply, NodeError>),
}

impl Replies {
    pub(crate) fn new(nodes: usize) -> Self {
        let slots = (0..nodes).map(|_| Slot::Empty).collect();
        Self(Arc::new(Mutex::new(State { slots, wake_after: 1, wanted: true, ..State::default() })))
    }

    /// The sender for a node's reply. A node has one pending reply at a time.
    pub(crate) fn sender_for(&self, node: usize) -> ReplySender {
        let mut state = self.0.lock();
        if !matches!(state.slots[node], Slot::Pending(_)) {
            state.pending += 1;
        }
        state.slots[node] = Slot::Pending(None);
        ReplySender::new(Arc::clone(&self.0), node)
    }

    /// Tells when this many nodes have replied, counted from when the last of them was written to, or else from the beginning of
    /// the round.
    pub(crate) fn time_majority(&self, of: usize, since: Instant, timer: Arc<dyn MajorityTimer>) {
        self.0.lock().majority = Some(Majority { timer, of, since });
    }

    /// How many replies were received while they were awaited, errors among them.
    pub(crate) fn received(&self) -> usize {
        self.0.lock().received
    }

    /// Wakes the receiver only when this many replies were received in all, or none is pending.
    pub(crate) fn wake_after(&self, received: usize) {
        self.0.lock().wake_after = received;
    }

    /// Wakes the receiver for each error, too, from now on.
    pub(crate) fn wake_for_errors(&self) {
        self.0.lock().wake_for_errors = true;
    }

    /// Takes a reply that was received.
    pub(crate) fn take(&self) -> Option<(usize, Result<Reply, NodeError>)> {
        self.0.lock().take()
    }

    /// The next reply, with the node that sent it; `None` if none is pending.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<(usize, Result<Reply, NodeError>)>> {
        let mut state = self.0.lock();
        if let Some(reply) = state.take() {
            return Poll::Ready(Some(reply));
        }
        if state.pending == 0 {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether no reply is pending and every received one was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.0.lock().slots.iter().all(|slot| matches!(slot, Slot::Empty | Slot::GivenUp(_)))
    }

    /// When the last of the requests was written whose replies are pending, of those that were written by a time.
    pub(crate) fn last_written(&self, by: Instant) -> Option<Instant> {
        let written = |slot: &Slot| if let Slot::Pending(written) = slot { *written } else { None };
        self.0.lock().slots.iter().filter_map(written).filter(|written| *written <= by).max()
    }

    /// Gives up the pending reply of the last node that has one.
    pub(crate) fn give_up_one(&self) -> Option<usize> {
        let mut state = self.0.lock();
        let node = state.slots.iter().rposition(|slot| matches!(slot, Slot::Pending(_)))?;
        if let Slot::Pending(written) = state.slots[node] {
            state.slots[node] = Slot::GivenUp(written);
            state.pending -= 1;
        }
        Some(node)
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.wanted = false;
        let waker = state.waker.take();
        // A waker may run any code when it is dropped, so it is dropped after the lock is free.
        drop(state);
        drop(waker);
    }
}

impl State {
    /// Takes the first node's reply of those that were received.
    fn take(&mut self) -> Option<(usize, Result<Reply, NodeError>)> {
        let node = self.slots.iter().position(|slot| matches!(slot, Slot::Received(_)))?;
        let Slot::Received(reply) = std::mem::replace(&mut self.slots[node], Slot::Empty) else { return None };
        Some((node, reply))
    }

    pub(super) fn nodes(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn written(&mut self, node: usize, at: Instant) {
        if let Slot::Pending(written) = &mut self.slots[node] {
            *written = Some(at);
        }
    }

    pub(super) fn is_awaited(&self, node: usize) -> bool {
        self.wanted && matches!(self.slots[node], Slot::Pending(_))
    }

    /// Stores a reply if it is pending. Returns the receiver's waker if it is to be woken, and who is to be told of a majority.
    pub(super) fn receive(&mut self, node: usize, reply: Result<Reply, NodeError>) -> (Option<Waker>, Option<Timed>) {
        let slot = &mut self.slots[node];
        let (written, is_pending) = match *slot {
            Slot::Pending(written) => (written, true),
            Slot::GivenUp(written) => (written, false),
            Slot::Empty | Slot::Received(_) => return (None, None),
        };
        let is_answer = reply.is_ok();
        // One that was given up was counted as missing. Its reply only shows how long the node takes.
        *slot = if is_pending { Slot::Received(reply) } else { Slot::Empty };
        let timed = if is_answer { self.count_answer(written) } else { None };
        if !is_pending {
            return (None, timed);
        }
        self.pending -= 1;
        self.received += 1;
        let wakes = self.received >= self.wake_after || self.pending == 0 || (self.wake_for_errors && !is_answer);
        (if wakes { self.waker.take() } else { None }, timed)
    }

    /// Counts the reply to a request that was written then.
    fn count_answer(&mut self, written: Option<Instant>) -> Option<Timed> {
        self.answered += 1;
        let Majority { timer, since, .. } = self.majority.take_if(|majority| self.answered == majority.of)?;
        Some((timer, written.unwrap_or(since)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    async fn next(replies: &Replies) -> Option<(usize, Result<Reply, NodeError>)> {
        poll_fn(|cx| replies.poll_next(cx)).await
    }

    #[tokio::test]
    async fn a_dropped_sender_reports_that_the_connection_was_lost() {
        let (sender, received) = ReplySender::channel();
        drop(sender);
        assert_eq!(received.await, Err(NodeError::ConnectionLost { reason: "it was closed or stalled".into() }));
    }

    #[tokio::test]
    async fn a_reply_that_nobody_awaits_is_discarded() {
        let (sender, received) = ReplySender::channel();
        assert!(sender.is_awaited());
        drop(received);
        assert!(!sender.is_awaited());
        sender.send(Ok(Reply::Kept));
        assert!(!ReplySender::unwanted().is_awaited());
    }

    #[tokio::test]
    async fn the_receiver_is_not_woken_before_there_are_enough_replies() {
        let replies = Arc::new(Replies::new(5));
        let senders: Vec<_> = (0..5).map(|node| replies.sender_for(node)).collect();
        replies.wake_after(3);
        let receiver = tokio::spawn({
            let replies = Arc::clone(&replies);
            async move { next(&replies).await }
        });
        yield_now().await;
        for (node, sender) in senders.into_iter().enumerate().rev().take(3) {
            assert!(!receiver.is_finished());
            sender.send(Err(NodeError::Overloaded));
            yield_now().await;
            assert_eq!(receiver.is_finished(), node == 2);
        }
        assert_eq!(
            receiver.await.unwrap(),
            Some((2, Err(NodeError::Overloaded))),
            "of those received, the first node's"
        );
    }

    #[derive(Default)]
    struct Times(Mutex<Vec<Duration>>);

    impl MajorityTimer for Times {
        fn majority_replied(&self, written: Instant) {
            self.0.lock().push(written.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_is_timed_although_nobody_waits_for_it() {
        let (replies, times, second) = (Replies::new(5), Arc::new(Times::default()), Duration::from_secs(1));
        replies.time_majority(3, Instant::now(), Arc::clone(&times) as _);
        let mut senders: Vec<_> = (0..5).map(|node| replies.sender_for(node)).collect();
        let mut reply = |reply| senders.pop().unwrap().send(reply);
        reply(Ok(Reply::Kept));
        sleep(second).await;
        // An error is no answer.
        reply(Err(NodeError::Overloaded));
        assert_eq!(replies.give_up_one(), Some(2));
        reply(Ok(Reply::Kept));
        assert_eq!((replies.received(), times.0.lock().clone()), (2, vec![]));
        drop(replies);
        sleep(second).await;
        reply(Ok(Reply::Kept));
        reply(Ok(Reply::Kept));
        assert_eq!(*times.0.lock(), [2 * second]);
    }

    #[tokio::test]
    async fn a_reply_that_was_given_up_does_not_count_when_it_arrives() {
        let replies = Replies::new(2);
        let [early, late] = [replies.sender_for(0), replies.sender_for(1)];
        assert_eq!(replies.give_up_one(), Some(1));
        assert!(early.is_awaited() && !late.is_awaited());
        late.send(Ok(Reply::Kept));
        assert!(poll!(std::pin::pin!(next(&replies))).is_pending());
        early.send(Ok(Reply::Gone));
        assert_eq!(next(&replies).await, Some((0, Ok(Reply::Gone))));
        assert_eq!(next(&replies).await, None);
    }
}
