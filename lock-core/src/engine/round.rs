use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, Sleep, sleep_until};

use super::Cluster;
use crate::node::{NodeError, NodeFuture, Reply};

/// Requests that were cast to some nodes together, and their answers until a deadline.
pub(crate) struct Round {
    cluster: Arc<Cluster>,
    answers: Vec<Option<NodeFuture<Result<Reply, NodeError>>>>,
    deadline: Pin<Box<Sleep>>,
}

impl Round {
    pub(crate) fn new(cluster: &Arc<Cluster>, deadline: Instant) -> Self {
        let answers = (0..cluster.size()).map(|_| None).collect();
        Self { cluster: Arc::clone(cluster), answers, deadline: Box::pin(sleep_until(deadline)) }
    }

    /// Adds the answer that is due from a node.
    pub(crate) fn add(&mut self, node: usize, answer: NodeFuture<Result<Reply, NodeError>>) {
        self.answers[node] = Some(answer);
    }

    /// The next answer; after the deadline, [`NodeError::TimedOut`] for each that is missing. `None` when all have come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<Reply, NodeError>)> {
        poll_fn(|cx| {
            let mut open = None;
            for (node, slot) in self.answers.iter_mut().enumerate() {
                let Some(answer) = slot else { continue };
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    *slot = None;
                    if let Err(error) = &answer {
                        self.cluster.note(node, error);
                    }
                    return Poll::Ready(Some((node, answer)));
                }
                open = Some(node);
            }
            let Some(node) = open else { return Poll::Ready(None) };
            std::task::ready!(self.deadline.as_mut().poll(cx));
            self.answers[node] = None;
            Poll::Ready(Some((node, Err(NodeError::TimedOut))))
        })
        .await
    }
}
