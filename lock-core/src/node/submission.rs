//! Requests on their way to a connection.

use std::iter;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{NodeError, ReplySender, Request};

/// How many submissions may wait to be written. Beyond it the node is not keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// A request on its way. Boxed: it is moved about fifteen times until it is answered, and is 200 bytes long.
pub(super) type Message = Box<Submitted>;

/// A request, and where its reply goes.
pub(super) struct Submitted {
    pub(super) request: Request,
    pub(super) reply_to: ReplySender,
}

/// What has one place in the order of requests: one request, or several that were submitted at once and are written together.
pub(super) struct Submission {
    first: Message,
    /// Empty for nearly all: then it is not allocated.
    others: Vec<Message>,
}

impl Submission {
    /// Requests that were submitted at once; `None` if there are none.
    pub(super) fn of_all(requests: Vec<(Request, ReplySender)>) -> Option<Self> {
        let mut messages = requests.into_iter().map(|(request, reply_to)| Box::new(Submitted { request, reply_to }));
        messages.next().map(|first| Self { first, others: messages.collect() })
    }

    pub(super) fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        iter::once(self.first).chain(self.others)
    }
}

impl From<Message> for Submission {
    fn from(first: Message) -> Self {
        Self { first, others: Vec::new() }
    }
}

/// Where a link puts what its worker writes.
#[derive(Clone)]
pub(super) struct Submissions(mpsc::Sender<Submission>);

impl Submissions {
    pub(super) fn channel() -> (Self, mpsc::Receiver<Submission>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(sender), receiver)
    }

    /// Gives a submission its place in the order, or refuses it: `lost` says why if the worker has ended.
    pub(super) fn send(&self, submission: Submission, lost: &str) {
        match self.0.try_send(submission) {
            Ok(()) => {}
            // At once, and not awaited: one node that does not keep up must not hold up the requests to the others.
            Err(TrySendError::Full(unsent)) => refuse(unsent.into_messages(), &NodeError::Overloaded),
            Err(TrySendError::Closed(unsent)) => {
                refuse(unsent.into_messages(), &NodeError::Unreachable { reason: lost.to_owned() });
            }
        }
    }
}

/// Replies to requests with an error.
pub(super) fn refuse(messages: impl IntoIterator<Item = Message>, error: &NodeError) {
    for message in messages {
        message.reply_to.send(Err(error.clone()));
    }
}
