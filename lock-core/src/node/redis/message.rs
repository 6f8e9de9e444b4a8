use std::iter;

use crate::node::{Operation, ReplySender, Request};

/// A request on its way to the connection, and where its reply goes.
pub(super) struct Message {
    pub(super) request: Request,
    pub(super) reply_to: ReplySender,
}

/// What has its place in the order of requests: one request, or several that were submitted at once and are written together.
pub(super) struct Submission {
    pub(super) first: Message,
    /// Empty for nearly all: then it is not allocated.
    pub(super) others: Vec<Message>,
}

impl Submission {
    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        iter::once(self.first).chain(self.others)
    }
}

impl AsRef<Request> for Message {
    fn as_ref(&self) -> &Request {
        &self.request
    }
}

impl Message {
    /// Whether a message that met `NOSCRIPT` may be sent again, behind what was sent since.
    ///
    /// It was not executed. But the release of an acquire that nobody waits for any longer, or of a replaced lock, may be among
    /// what was sent since: the acquire or replace would then leave a key behind.
    pub(super) fn may_be_sent_again(&self) -> bool {
        match self.request.operation {
            Operation::Acquire { .. } => self.reply_to.is_awaited(),
            Operation::Replace { .. } => false,
            Operation::Confirm { .. }
            | Operation::Extend { .. }
            | Operation::Downgrade { .. }
            | Operation::Release { .. }
            | Operation::LeaveQueue => true,
        }
    }
}
