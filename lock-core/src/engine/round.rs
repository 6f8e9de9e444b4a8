use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::{Cluster, NodeSet};
use crate::node::{Answers, LockKeys, NodeError, NodeFuture, Reply, Request};
use crate::quorum::majority;

/// Which node answered, and what.
type Answered = (usize, Result<Reply, NodeError>);

/// Requests that are cast to some nodes together, and their answers until a deadline.
pub(crate) struct Round {
    cluster: Arc<Cluster>,
    keys: LockKeys,
    answers: Answers,
    /// What is cast when a node that is being connected to for the first time stands one way or another. Cast from in here, so
    /// that nothing is cast after the round was dropped.
    joining: Vec<(usize, Request, NodeFuture<()>)>,
    deadline: Instant,
    /// Set when an answer is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Round {
    pub(crate) fn new(cluster: &Arc<Cluster>, keys: &LockKeys, deadline: Instant) -> Self {
        let (cluster, keys, answers) = (Arc::clone(cluster), keys.clone(), Answers::new(cluster.size()));
        Self { cluster, keys, answers, joining: Vec::new(), deadline, timer: None }
    }

    /// Casts a request to a node: when this returns, it is handed over, or never will be.
    pub(crate) fn cast(&self, node: usize, request: Request) {
        self.cluster.cast(node, &self.keys, request, self.answers.due_from(node));
    }

    /// Casts a request to a node that may be connecting for the first time, in which case it is awaited first.
    pub(crate) fn cast_when_joined(&mut self, node: usize, request: Request) {
        match self.cluster.joining(node) {
            None => self.cast(node, request),
            Some(joined) => self.joining.push((node, request, joined)),
        }
    }

    /// The nodes for which a request was given that was not cast, and never will be if this is dropped now.
    pub(crate) fn uncast(&self) -> NodeSet {
        let mut nodes = NodeSet::default();
        self.joining.iter().for_each(|(node, ..)| nodes.insert(*node));
        nodes
    }

    /// Wakes the task that waits only when there can be a verdict: when a majority of the nodes has answered, where it is `known`
    /// beforehand what so many of them would say. A task that is woken for each answer does little else.
    pub(crate) fn await_majority_but(&self, known: usize) {
        self.answers.wake_at(majority(self.cluster.size()).saturating_sub(known));
    }

    /// Wakes the task that waits only when all have answered.
    pub(crate) fn await_all(&self) {
        self.answers.wake_at(usize::MAX);
    }

    /// Waits on in another task, which may be on another runtime.
    pub(crate) fn move_on(&mut self) {
        self.timer = None;
    }

    /// Waits on, until another time, and for each answer.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        (self.deadline, self.timer) = (deadline, None);
        self.answers.wake_at(1);
    }

    /// The next answer before the deadline; `None` when it is over, or all have come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next_in_time(&mut self) -> Option<Answered> {
        poll_fn(|cx| match self.poll_answers(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => self.poll_deadline(cx).map(|()| None),
        })
        .await
    }

    /// The next answer; after the deadline, an error for each that is missing. `None` when all have come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Answered> {
        poll_fn(|cx| {
            if let Poll::Ready(answer) = self.poll_answers(cx) {
                return Poll::Ready(answer);
            }
            std::task::ready!(self.poll_deadline(cx));
            let silent = self.answers.give_up_one().map(|node| (node, Err(NodeError::TimedOut)));
            let connecting = || NodeError::Unreachable { reason: "connecting".into() };
            Poll::Ready(silent.or_else(|| self.joining.pop().map(|(node, ..)| (node, Err(connecting())))))
        })
        .await
    }

    /// An answer that has come.
    pub(crate) fn take(&self) -> Option<Answered> {
        self.answers.take().map(|answer| self.noted(answer))
    }

    fn noted(&self, (node, answer): Answered) -> Answered {
        if let Err(error) = &answer {
            self.cluster.note(node, error);
        }
        (node, answer)
    }

    /// Whether nothing is to come any more, before another request is cast.
    pub(crate) fn is_over(&self) -> bool {
        self.joining.is_empty() && self.answers.is_over()
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answered>> {
        let mut at = 0;
        while let Some((node, request, joined)) = self.joining.get_mut(at) {
            if joined.as_mut().poll(cx).is_ready() {
                let (node, request) = (*node, *request);
                drop(self.joining.remove(at));
                self.cast(node, request);
            } else {
                at += 1;
            }
        }
        match self.answers.poll_next(cx) {
            Poll::Ready(Some(answer)) => Poll::Ready(Some(self.noted(answer))),
            Poll::Ready(None) if !self.joining.is_empty() => Poll::Pending,
            polled => polled,
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline))).as_mut().poll(cx)
    }
}
