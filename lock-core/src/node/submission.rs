//! Requests on their way to a connection.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{NodeError, Operation, QueuePosition, Reply, ReplySender, Request};
use crate::mutex::Mutex;
use crate::random::OwnerId;

/// How many requests may wait to be written. Beyond it the node is not keeping up, and further requests fail at once.
const CAPACITY: usize = 8192;

/// From how many on they are searched for those that would only undo each other: again when twice as many wait as were left. More than wait
/// for a node that keeps up with hundreds of tasks.
const BACKLOG: usize = 1024;

/// How many boxes are kept for the next requests.
const MAX_SPARE: usize = 1024;

/// A request on its way. Boxed: it is moved about ten times until it is answered, and is 160 bytes long.
pub(super) type Message = Box<Submitted>;

/// A request, and where its reply goes.
pub(super) struct Submitted {
    pub(super) request: Request,
    pub(super) reply_to: ReplySender,
}

/// Where a link puts what its worker writes. The last clone tells the worker that there will be no more.
///
/// No channel of tokio, because the worker takes all of them at once: to receive them one by one, ten for a lock on five nodes, is a
/// thirtieth of what a client does for it.
#[derive(Clone)]
pub(super) struct Submissions(Arc<Entrance>);

struct Entrance(Arc<Mutex<Waiting>>);

/// Where a worker takes them.
pub(super) struct Inbox(Arc<Mutex<Waiting>>);

struct Waiting {
    messages: VecDeque<Message>,
    /// How many may wait until they are searched.
    searched_at: usize,
    /// Boxes of requests that have their replies, for the next requests: thousands that come and go are slow to allocate.
    spare: Vec<Message>,
    /// Whether more can come: there is a link, and the worker has not ended.
    is_open: bool,
    worker: Option<Waker>,
}

impl Submissions {
    pub(super) fn channel() -> (Self, Inbox) {
        let (messages, spare) = (VecDeque::new(), Vec::new());
        let waiting = Waiting { messages, searched_at: BACKLOG, spare, is_open: true, worker: None };
        let waiting = Arc::new(Mutex::new(waiting));
        (Self(Arc::new(Entrance(Arc::clone(&waiting)))), Inbox(waiting))
    }

    /// A message with a request.
    pub(super) fn message(&self, request: Request, reply_to: ReplySender) -> Message {
        let (message, spare) = (Submitted { request, reply_to }, self.0.0.lock().spare.pop());
        match spare {
            Some(mut spare) => {
                *spare = message;
                spare
            }
            None => Box::new(message),
        }
    }

    /// Gives messages their place in the order, next to each other, or refuses them: `lost` says why if the worker has ended.
    pub(super) fn send(&self, messages: impl IntoIterator<Item = Message>, lost: &str) {
        let mut waiting = self.0.0.lock();
        if waiting.is_open && waiting.messages.len() < CAPACITY {
            waiting.messages.extend(messages);
            let (undone, worker) = (waiting.take_undone(), waiting.worker.take());
            drop(waiting);
            worker.into_iter().for_each(Waker::wake);
            return undone.into_iter().for_each(|message| answer_undone(*message));
        }
        // At once, and not awaited: one node that does not keep up must not hold up the requests to the others.
        let error =
            if waiting.is_open { NodeError::Overloaded } else { NodeError::Unreachable { reason: lost.to_owned() } };
        drop(waiting);
        refuse(messages, &error);
    }
}

impl Waiting {
    /// Takes out the acquires whose release waits behind them, and these: the node does not keep up, and would do them for nobody. What is
    /// needed, once another node fails, comes behind no others then.
    fn take_undone(&mut self) -> VecDeque<Message> {
        if self.messages.len() < self.searched_at {
            return VecDeque::new();
        }
        let mut owners: HashMap<OwnerId, Stage> = HashMap::new();
        for Submitted { request, .. } in self.messages.iter().map(|message| &**message) {
            if let Some(owner) = request.operation.owner() {
                owners
                    .entry(owner)
                    .and_modify(|stage| stage.next(request.operation))
                    .or_insert_with(|| Stage::first(request.operation));
            }
        }
        let is_undone = |message: &Message| {
            let owner = message.request.operation.owner();
            owner.is_some_and(|owner| owners.get(&owner) == Some(&Stage::Undone))
        };
        let (undone, left) = mem::take(&mut self.messages).into_iter().partition(is_undone);
        self.messages = left;
        self.searched_at = BACKLOG.max(2 * self.messages.len());
        undone
    }
}

/// What waits of one owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Acquire,
    /// An acquire, and directly behind it the release.
    Undone,
    Other,
}

impl Stage {
    fn first(operation: Operation) -> Self {
        if matches!(operation, Operation::Acquire { .. }) { Self::Acquire } else { Self::Other }
    }

    fn next(&mut self, operation: Operation) {
        // A position that an older acquire took is given up when it is called.
        let ends_it =
            matches!(operation, Operation::Release { position: QueuePosition::None | QueuePosition::Leave, .. });
        *self = if *self == Self::Acquire && ends_it { Self::Undone } else { Self::Other };
    }
}

/// Nothing was acquired, so nothing was to be released.
fn answer_undone(Submitted { request, reply_to }: Submitted) {
    let is_release = matches!(request.operation, Operation::Release { .. });
    reply_to.send(if is_release { Ok(Reply::NotOwner) } else { Err(NodeError::Overloaded) });
}

impl Drop for Entrance {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_open = false;
        let worker = waiting.worker.take();
        drop(waiting);
        worker.into_iter().for_each(Waker::wake);
    }
}

impl Inbox {
    /// Waits until there is a message to take. Returns false if there is none, and none will come.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub(super) async fn is_ready(&self) -> bool {
        poll_fn(|cx| {
            let mut waiting = self.0.lock();
            if waiting.messages.is_empty() && waiting.is_open {
                match &mut waiting.worker {
                    Some(worker) => worker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            Poll::Ready(!waiting.messages.is_empty())
        })
        .await
    }

    /// Takes the first messages, at most this many. `taken` is empty, and its room is used for those that come from now on.
    pub(super) fn take(&self, taken: &mut VecDeque<Message>, most: usize) {
        // After a burst, the room for it is not kept.
        taken.shrink_to(most);
        let mut waiting = self.0.lock();
        if waiting.messages.len() > most {
            taken.extend(waiting.messages.drain(..most));
        } else {
            mem::swap(taken, &mut waiting.messages);
            waiting.searched_at = BACKLOG;
        }
    }

    /// Keeps the boxes of messages that have their replies, as many as are in flight as a rule.
    pub(super) fn give_back(&self, messages: impl Iterator<Item = Message>) {
        let spare = &mut self.0.lock().spare;
        let room = MAX_SPARE.saturating_sub(spare.len());
        spare.extend(messages.take(room));
    }

    /// How many wait to be taken.
    pub(super) fn len(&self) -> usize {
        self.0.lock().messages.len()
    }

    /// Lets nothing in any more, and drops what was not taken.
    pub(super) fn close(&self) {
        let mut waiting = self.0.lock();
        waiting.is_open = false;
        let left = (mem::take(&mut waiting.messages), waiting.worker.take());
        // Dropping a request replies to it, and that may run any code.
        drop(waiting);
        drop(left);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// Replies to requests with an error.
pub(super) fn refuse(messages: impl IntoIterator<Item = Message>, error: &NodeError) {
    for message in messages {
        message.reply_to.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::node::{Keyspace, Kind, LockKeys, NodeFuture};
    use crate::random::{Epoch, WaiterId};

    const TTL: Duration = Duration::from_secs(10);

    /// Submits a request about a resource of this name. Returns its reply.
    fn submit(submissions: &Submissions, resource: &str) -> NodeFuture<Result<Reply, NodeError>> {
        submit_operation(submissions, resource, Operation::LeaveQueue)
    }

    fn submit_operation(
        submissions: &Submissions,
        resource: &str,
        operation: Operation,
    ) -> NodeFuture<Result<Reply, NodeError>> {
        let keys = LockKeys::new(&Arc::new(Keyspace::new("")), resource);
        let (epoch, waiter) = (Epoch::from_bits(1), WaiterId::from_bits(1));
        let (reply_to, reply) = ReplySender::channel();
        let message = submissions.message(Request { keys, epoch, waiter, polls: false, operation }, reply_to);
        submissions.send([message], "lost");
        reply
    }

    fn taken(inbox: &Inbox, most: usize) -> Vec<String> {
        let mut taken = VecDeque::new();
        inbox.take(&mut taken, most);
        taken.into_iter().map(|message| message.request.keys.lock_key().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn submissions_are_taken_in_their_order_and_no_more_than_are_wanted() {
        let (submissions, inbox) = Submissions::channel();
        let submitting = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ["a", "b", "c"].map(|resource| submit(&submissions, resource))
        };
        let (ready, _replies) = tokio::join!(inbox.is_ready(), submitting);
        assert!(ready);
        assert_eq!([taken(&inbox, 2), taken(&inbox, 2)], [vec!["a", "b"], vec!["c"]]);
        assert_eq!(inbox.is_ready().now_or_never(), None);
        drop(submissions);
        assert!(!inbox.is_ready().await);
    }

    #[tokio::test]
    async fn a_request_that_is_not_taken_is_answered() {
        let (submissions, inbox) = Submissions::channel();
        let mut waiting: Vec<_> = (0..CAPACITY).map(|_| submit(&submissions, "r")).collect();
        assert_eq!(submit(&submissions, "r").await, Err(NodeError::Overloaded));
        drop(inbox);
        let replies: Vec<_> = waiting.iter_mut().map(FutureExt::now_or_never).collect();
        assert!(replies.iter().all(|reply| matches!(reply, Some(Err(NodeError::ConnectionLost { .. })))));
        assert_eq!(submit(&submissions, "r").await, Err(NodeError::Unreachable { reason: "lost".into() }));
    }

    #[tokio::test]
    async fn what_would_only_be_undone_does_not_wait_for_a_node_that_does_not_keep_up() {
        let (submissions, inbox) = Submissions::channel();
        let submit = |owner, operations: &[fn(OwnerId) -> Operation]| {
            let owner = OwnerId::from_bits(owner);
            let submit = |operation: &fn(OwnerId) -> Operation| submit_operation(&submissions, "r", operation(owner));
            operations.iter().map(submit).collect::<Vec<_>>()
        };
        let kept = [
            submit(1, &[acquire]),
            submit(2, &[release]),
            submit(3, &[acquire, keep]),
            submit(4, &[acquire, extend, release]),
        ];
        let kept_count: usize = kept.iter().map(Vec::len).sum();
        for owner in 0..10_000 {
            let [acquired, released] = submit(10 + owner, &[acquire, release]).try_into().ok().unwrap();
            if inbox.len() == kept_count {
                assert_eq!(acquired.await, Err(NodeError::Overloaded));
                assert_eq!(released.await, Ok(Reply::NotOwner));
            }
            assert!(inbox.len() <= BACKLOG);
        }
        let mut all = VecDeque::new();
        inbox.take(&mut all, CAPACITY);
        let owners = all.iter().filter_map(|message| message.request.operation.owner());
        let in_order: Vec<_> = [1, 2, 3, 3, 4, 4, 4].map(OwnerId::from_bits).to_vec();
        assert_eq!(owners.take(kept_count).collect::<Vec<_>>(), in_order);
    }

    fn acquire(owner: OwnerId) -> Operation {
        Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write }
    }

    fn extend(owner: OwnerId) -> Operation {
        Operation::Extend { owner, ttl: TTL }
    }

    fn release(owner: OwnerId) -> Operation {
        Operation::Release { owner, position: QueuePosition::Leave }
    }

    fn keep(owner: OwnerId) -> Operation {
        Operation::Release { owner, position: QueuePosition::Keep { since: NonZeroU64::MIN, kind: Kind::Write } }
    }

    #[test]
    fn a_box_is_used_again() {
        let (submissions, inbox) = Submissions::channel();
        let replies = ["a", "b"].map(|resource| {
            let reply = submit(&submissions, resource);
            let mut messages = VecDeque::new();
            inbox.take(&mut messages, 1);
            assert_eq!(messages[0].request.keys.lock_key(), resource);
            messages.iter_mut().for_each(|message| message.reply_to.answer(Ok(Reply::QueueLeft)));
            let address = std::ptr::from_ref(&*messages[0]).addr();
            inbox.give_back(messages.into_iter());
            (address, reply.now_or_never())
        });
        assert_eq!(replies[0], replies[1]);
        assert_eq!(replies[1].1, Some(Ok(Reply::QueueLeft)));
    }
}
