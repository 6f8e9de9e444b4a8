//! How servers that lead to a master are asked for it, and what is believed.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream};
use tokio::time::timeout;

use super::address::Server;
use crate::node::NodeError;

/// How long the servers that lead to a master are given to say which it is. Less than connecting may take, for it is connected to
/// afterwards.
pub(super) const LEADING_TIMEOUT: Duration = Duration::from_millis(500);

/// Asks servers that lead to a master, all at once. Their answers come with their names.
pub(super) fn ask_all<'a, T, Fut>(
    servers: &'a [Server],
    ask: impl Fn(&'a Server) -> Fut,
) -> impl Stream<Item = (&'a str, Result<T, NodeError>)> + Unpin
where
    Fut: Future<Output = Result<T, NodeError>>,
{
    let asked = servers.iter().map(|server| {
        let answer = timeout(LEADING_TIMEOUT, ask(server));
        let no_answer = || NodeError::Unreachable { reason: "no answer".into() };
        async move { (&*server.name, answer.await.unwrap_or_else(|_| Err(no_answer()))) }
    });
    asked.collect::<FuturesUnordered<_>>()
}

/// What more than half of this many servers say. One of them may have been cut off, and name a former master.
pub(super) fn majority<T: PartialEq>(said: &[T], servers: usize) -> Option<&T> {
    said.iter().find(|one| said.iter().filter(|other| other == one).count() > servers / 2)
}

/// What all say that answer: one of them may be cut off with a master that another one has replaced.
pub(super) fn unanimous<T: PartialEq>(said: &[T]) -> Option<&T> {
    said.first().filter(|first| said.iter().all(|other| other == *first))
}
