use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{NodeError, NodeFuture, Reply};

/// Where the answer to a ballot goes: to the one who asked, wherever that is. If it is dropped instead, that one is told that the
/// connection was lost.
pub struct Answer {
    /// `None` when it was given, or when nobody wants it.
    to: Option<Arc<Mutex<State>>>,
    node: usize,
}

impl Answer {
    /// One answer, and the future of it.
    #[must_use]
    pub fn channel() -> (Self, NodeFuture<Result<Reply, NodeError>>) {
        let answers = Answers::new(1);
        let answer = answers.due_from(0);
        let answered = async move {
            // Given or dropped, it comes.
            let come = poll_fn(|cx| answers.poll_next(cx)).await;
            come.map_or_else(|| Err(lost()), |(_, answer)| answer)
        };
        (answer, Box::pin(answered))
    }

    /// One that nobody wants.
    pub(crate) fn unwanted() -> Self {
        Self { to: None, node: 0 }
    }

    /// Gives the answer.
    pub fn send(mut self, answer: Result<Reply, NodeError>) {
        self.give(answer);
    }

    /// Whether somebody wants it yet.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.to.as_ref().is_some_and(|state| lock(state).is_awaited(self.node))
    }

    fn give(&mut self, answer: Result<Reply, NodeError>) {
        let Some(to) = self.to.take() else { return };
        let waker = lock(&to).take_in(self.node, answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.to.is_some() {
            self.give(Err(lost()));
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("node", &self.node).finish_non_exhaustive()
    }
}

fn lost() -> NodeError {
    NodeError::ConnectionLost { reason: "it was closed or stalled".into() }
}

/// The answers of some nodes, as they come. All in one place, so that a vote that comes costs its receiver nothing before there
/// are enough of them.
pub(crate) struct Answers(Arc<Mutex<State>>);

struct State {
    /// Of each node.
    slots: Vec<Slot>,
    open: usize,
    come: usize,
    /// How many must have come before the receiver is woken, unless none is open.
    wakes_at: usize,
    wanted: bool,
    waker: Option<Waker>,
}

/// The answer of a node: not due, due, or here.
enum Slot {
    Empty,
    Open,
    Come(Result<Reply, NodeError>),
}

impl Answers {
    pub(crate) fn new(nodes: usize) -> Self {
        let slots = (0..nodes).map(|_| Slot::Empty).collect();
        Self(Arc::new(Mutex::new(State { slots, open: 0, come: 0, wakes_at: 1, wanted: true, waker: None })))
    }

    /// Where a node's answer is to go: one at a time.
    pub(crate) fn due_from(&self, node: usize) -> Answer {
        let mut state = lock(&self.0);
        if !matches!(state.slots[node], Slot::Open) {
            state.open += 1;
        }
        state.slots[node] = Slot::Open;
        Answer { to: Some(Arc::clone(&self.0)), node }
    }

    /// Does not wake the receiver before so many have come in all, or all that are due.
    pub(crate) fn wake_at(&self, come: usize) {
        lock(&self.0).wakes_at = come;
    }

    /// An answer that has come.
    pub(crate) fn take(&self) -> Option<(usize, Result<Reply, NodeError>)> {
        lock(&self.0).take()
    }

    /// The next answer; `None` when none is due.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<(usize, Result<Reply, NodeError>)>> {
        let mut state = lock(&self.0);
        if let Some(answer) = state.take() {
            return Poll::Ready(Some(answer));
        }
        if state.open == 0 {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether none is due, and all that came were taken.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0).slots.iter().all(|slot| matches!(slot, Slot::Empty))
    }

    /// Gives up the last of the nodes whose answers are due.
    pub(crate) fn give_up_one(&self) -> Option<usize> {
        let mut state = lock(&self.0);
        let node = state.slots.iter().rposition(|slot| matches!(slot, Slot::Open))?;
        state.slots[node] = Slot::Empty;
        state.open -= 1;
        Some(node)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.wanted = false;
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }
}

impl State {
    /// The first node's of the answers that have come.
    fn take(&mut self) -> Option<(usize, Result<Reply, NodeError>)> {
        let here = self.slots.iter().position(|slot| matches!(slot, Slot::Come(_)))?;
        match std::mem::replace(&mut self.slots[here], Slot::Empty) {
            Slot::Come(answer) => Some((here, answer)),
            Slot::Empty | Slot::Open => None,
        }
    }

    fn is_awaited(&self, node: usize) -> bool {
        self.wanted && self.slots.get(node).is_some_and(|slot| matches!(slot, Slot::Open))
    }

    /// Takes an answer in, if it is due. Who is to be woken.
    fn take_in(&mut self, node: usize, answer: Result<Reply, NodeError>) -> Option<Waker> {
        let slot = self.slots.get_mut(node).filter(|slot| matches!(slot, Slot::Open))?;
        *slot = Slot::Come(answer);
        self.open -= 1;
        self.come += 1;
        if self.come >= self.wakes_at || self.open == 0 { self.waker.take() } else { None }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::task::yield_now;

    use super::*;

    async fn next(answers: &Answers) -> Option<(usize, Result<Reply, NodeError>)> {
        poll_fn(|cx| answers.poll_next(cx)).await
    }

    #[tokio::test]
    async fn an_answer_that_is_dropped_tells_that_the_connection_was_lost() {
        let (answer, answered) = Answer::channel();
        drop(answer);
        assert_eq!(answered.await, Err(lost()));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_wants_any_more_goes_nowhere() {
        let (answer, answered) = Answer::channel();
        assert!(answer.is_awaited());
        drop(answered);
        assert!(!answer.is_awaited());
        answer.send(Ok(Reply::Kept));
        assert!(!Answer::unwanted().is_awaited());
    }

    #[tokio::test]
    async fn a_receiver_is_not_woken_before_there_are_enough() {
        let answers = Arc::new(Answers::new(5));
        let due: Vec<_> = (0..5).map(|node| answers.due_from(node)).collect();
        answers.wake_at(3);
        let receiver = tokio::spawn({
            let answers = Arc::clone(&answers);
            async move { next(&answers).await }
        });
        yield_now().await;
        for (node, answer) in due.into_iter().enumerate().rev().take(3) {
            assert!(!receiver.is_finished());
            answer.send(Err(NodeError::Overloaded));
            yield_now().await;
            assert_eq!(receiver.is_finished(), node == 2);
        }
        assert_eq!(
            receiver.await.unwrap(),
            Some((2, Err(NodeError::Overloaded))),
            "of those that came, the first node's"
        );
    }

    #[tokio::test]
    async fn what_was_given_up_is_not_counted_when_it_comes() {
        let answers = Answers::new(2);
        let [early, late] = [answers.due_from(0), answers.due_from(1)];
        assert_eq!(answers.give_up_one(), Some(1));
        assert!(early.is_awaited() && !late.is_awaited());
        late.send(Ok(Reply::Kept));
        assert!(poll!(std::pin::pin!(next(&answers))).is_pending());
        early.send(Ok(Reply::Gone));
        assert_eq!(next(&answers).await, Some((0, Ok(Reply::Gone))));
        assert_eq!(next(&answers).await, None);
    }
}
