use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::Cluster;
use crate::node::{NodeError, NodeFuture, Reply};

/// Which node answered, and what.
type Answer = (usize, Result<Reply, NodeError>);

/// Requests that were cast to some nodes together, and their answers until a deadline.
pub(crate) struct Round {
    cluster: Arc<Cluster>,
    answers: Vec<Option<NodeFuture<Result<Reply, NodeError>>>>,
    deadline: Instant,
    /// Set when an answer is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Round {
    pub(crate) fn new(cluster: &Arc<Cluster>, deadline: Instant) -> Self {
        let answers = (0..cluster.size()).map(|_| None).collect();
        Self { cluster: Arc::clone(cluster), answers, deadline, timer: None }
    }

    /// Adds the answer that is due from a node.
    pub(crate) fn add(&mut self, node: usize, answer: NodeFuture<Result<Reply, NodeError>>) {
        self.answers[node] = Some(answer);
    }

    /// The next answer before the deadline; `None` when it is over, or all have come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next_in_time(&mut self) -> Option<Answer> {
        poll_fn(|cx| {
            if let Some(polled) = self.poll_answers(cx) {
                return polled;
            }
            self.poll_deadline(cx).map(|()| None)
        })
        .await
    }

    /// The answers that have not come.
    pub(crate) fn into_open(self) -> impl Iterator<Item = (usize, NodeFuture<Result<Reply, NodeError>>)> {
        self.answers.into_iter().enumerate().filter_map(|(node, answer)| Some((node, answer?)))
    }

    /// The next answer; after the deadline, [`NodeError::TimedOut`] for each that is missing. `None` when all have come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        poll_fn(|cx| {
            if let Some(polled) = self.poll_answers(cx) {
                return polled;
            }
            let open = self.answers.iter().rposition(Option::is_some);
            let Some(node) = open else { return Poll::Ready(None) };
            std::task::ready!(self.poll_deadline(cx));
            self.answers[node] = None;
            Poll::Ready(Some((node, Err(NodeError::TimedOut))))
        })
        .await
    }

    /// The next answer that has come, or that none is due; `None` while they are awaited.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Option<Poll<Option<Answer>>> {
        let mut open = false;
        for (node, slot) in self.answers.iter_mut().enumerate() {
            let Some(answer) = slot else { continue };
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                *slot = None;
                if let Err(error) = &answer {
                    self.cluster.note(node, error);
                }
                return Some(Poll::Ready(Some((node, answer))));
            }
            open = true;
        }
        (!open).then_some(Poll::Ready(None))
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline))).as_mut().poll(cx)
    }
}
