use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::batch::{Batch, into_batches};
use super::inline_task::InlineTask;
use crate::node::redis::classify::{is_no_script, node_error};
use crate::node::redis::codec::{ScriptRef, decode, encode};
use crate::node::{NodeError, Operation, ReplySender, Request};

/// Ballots that may wait to be written. Beyond it a node is not keeping up, and says so.
const CAPACITY: usize = 8192;
/// Ballots that travel in one write at most, so that one answer is not held up by too many others.
const MAX_BATCH: usize = 128;
/// Writes that may be unanswered. What comes while there are so many travels together, a little later; and it is far below the
/// pipeline buffer, so that a write never waits for room in it.
const MAX_IN_FLIGHT: usize = 8;
/// So many ballots are worth a write before further answers are handed out.
const WORTH_A_WRITE: usize = 8;
/// After so many messages that were written one by one, the next is taken for a lone one, too.
const LONE_AFTER: usize = 4;
/// But one in so many waits for others all the same, or it would not be seen that there are some who come just behind: a release,
/// and the next acquire of the lock. An odd number, as they come by turns.
const BATCH_PROBE_EVERY: usize = 15;
/// A connection on which nothing moved for this long, though something is expected, is given up: a hung server, or a link
/// of which only one half is left. redis-rs itself never reconnects after a timeout.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The way of ballots to one connection: in the order in which they were handed over, and together when they come
/// together.
#[derive(Clone)]
pub(in crate::node::redis) struct Handle {
    messages: mpsc::Sender<Message>,
    delivery: Arc<InlineTask>,
}

struct Message {
    request: Request,
    reply_to: ReplySender,
}

impl AsRef<Request> for Message {
    fn as_ref(&self) -> &Request {
        &self.request
    }
}

impl Handle {
    /// Starts the delivery over `connection`. It ends, and `gone` with it, when the connection is lost or stalls, or when
    /// the queue was dropped and everything in it is answered.
    pub(in crate::node::redis) fn open(
        connection: MultiplexedConnection,
        driver: BoxFuture<'static, ()>,
        gone: CancellationToken,
    ) -> Self {
        let (sender, messages) = mpsc::channel(CAPACITY);
        let inline = Arc::new(AtomicBool::new(true));
        let delivery = Worker {
            connection,
            // A runtime that is shut down takes the delivery with it; the connection is gone then, too.
            _ended: gone.clone().drop_guard(),
            gone,
            in_flight: VecDeque::new(),
            batches: VecDeque::new(),
            lone: LONE_AFTER,
            inline: Arc::clone(&inline),
            moved: Instant::now(),
        };
        let delivery = InlineTask::spawn(inline, delivery.run(driver, messages));
        Self { messages: sender, delivery }
    }

    /// Hands a ballot over, now.
    pub(in crate::node::redis) fn send(&self, request: Request, reply_to: ReplySender) {
        // A lone message is written by the one who brings it.
        self.delivery.drive(|| {
            let (error, message) = match self.messages.try_send(Message { request, reply_to }) {
                Ok(()) => return,
                Err(TrySendError::Full(message)) => (NodeError::Overloaded, message),
                Err(TrySendError::Closed(message)) => {
                    (NodeError::Unreachable { reason: "connection lost".into() }, message)
                }
            };
            message.reply_to.send(Err(error));
        });
    }
}

struct Worker {
    connection: MultiplexedConnection,
    gone: CancellationToken,
    _ended: DropGuard,
    /// In the order in which they were written, which is that of the answers.
    in_flight: VecDeque<BoxFuture<'static, BatchReply>>,
    /// What there was no room for yet, to be written before anything else. At most one batch, and what a server that lost the
    /// script is to be sent once more.
    batches: VecDeque<(Batch<Message>, ScriptRef)>,
    /// How many messages were written one by one, up to the last.
    lone: usize,
    /// Whether the next one is likely to be alone, too.
    inline: Arc<AtomicBool>,
    /// When something was answered last, or began to be expected.
    moved: Instant,
}

/// What came back for one write.
struct BatchReply {
    batch: Batch<Message>,
    by: ScriptRef,
    result: RedisResult<Value>,
}

impl Worker {
    async fn run(mut self, mut driver: BoxFuture<'static, ()>, mut messages: mpsc::Receiver<Message>) {
        let gone = self.gone.clone();
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let (mut open, mut driven) = (true, true);
        let mut stalled = pin!(sleep_until(self.moved + STALLED_AFTER));
        while open || !self.in_flight.is_empty() {
            let alone = self.lone >= LONE_AFTER && !self.lone.is_multiple_of(BATCH_PROBE_EVERY);
            // Seldom changed, and so it is near to all who look.
            if self.inline.load(Ordering::Relaxed) != alone {
                self.inline.store(alone, Ordering::Relaxed);
            }
            tokio::select! {
                biased;
                () = gone.cancelled() => return,
                // It writes what was sent in the last pass, and reads what is handed out in the next.
                () = &mut driver, if driven => driven = false,
                answered = first(&mut self.in_flight), if !self.in_flight.is_empty() => {
                    self.in_flight.pop_front();
                    if answered.result.is_ok() {
                        self.moved = Instant::now();
                    }
                    let together = answered.batch.messages().count();
                    self.hand_out(answered);
                    self.write_batches().await;
                    // Of many who were answered, many vote again at once. The node is to work while others are answered.
                    if together >= WORTH_A_WRITE {
                        others_first().await;
                        if messages.len() >= WORTH_A_WRITE && self.has_room() {
                            self.write_waiting(&mut batch, &mut messages).await;
                        }
                    }
                }
                count = messages.recv_many(&mut batch, MAX_BATCH), if open && self.has_room() => {
                    open = count > 0;
                    // Whoever is ready to vote, too, goes first: their votes travel with this one. It waits for nobody else.
                    if !alone {
                        others_first().await;
                    }
                    self.write_waiting(&mut batch, &mut messages).await;
                }
                () = &mut stalled, if !self.in_flight.is_empty() => {
                    if self.moved.elapsed() >= STALLED_AFTER {
                        return;
                    }
                    stalled.as_mut().reset(self.moved + STALLED_AFTER);
                }
            }
        }
    }

    /// Writes a batch, filled up with what waits in the queue.
    async fn write_waiting(&mut self, batch: &mut Vec<Message>, messages: &mut mpsc::Receiver<Message>) {
        while batch.len() < MAX_BATCH
            && let Ok(message) = messages.try_recv()
        {
            batch.push(message);
        }
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        self.lone = if batch.len() == 1 { self.lone + 1 } else { 0 };
        self.batches.extend(into_batches(batch.drain(..)).into_iter().map(|batch| (batch, ScriptRef::Hash)));
        self.write_batches().await;
    }

    /// Whether more messages can be taken out of the queue.
    fn has_room(&self) -> bool {
        self.batches.is_empty() && self.in_flight.len() < MAX_IN_FLIGHT
    }

    /// Writes calls while there is room. When this returns, their bytes stand in the connection's queue, before those of any later
    /// ones.
    async fn write_batches(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT
            && let Some((batch, by)) = self.batches.pop_front()
        {
            self.send(batch, by).await;
        }
    }

    async fn send(&mut self, batch: Batch<Message>, by: ScriptRef) {
        let (mut connection, command) = (self.connection.clone(), encode(&batch, by));
        // Unconstrained: the first poll writes. With tokio's budget spent it would not, and a later batch could overtake.
        let mut write: BoxFuture<'static, BatchReply> = Box::pin(unconstrained(async move {
            let result = connection.send_packed_command(&command).await;
            BatchReply { batch, by, result }
        }));
        match futures_util::poll!(&mut write) {
            Poll::Ready(answered) => self.hand_out(answered),
            Poll::Pending => self.in_flight.push_back(write),
        }
    }

    fn hand_out(&mut self, BatchReply { batch, by, result }: BatchReply) {
        let messages = batch.into_messages();
        match result {
            Ok(value) if matches!(by, ScriptRef::Hash) && is_no_script(&value) => {
                let (again, never): (Vec<_>, Vec<_>) = messages.partition(Message::may_be_sent_again);
                answer(never, &value);
                // Before what is not written yet, and so behind what is.
                for batch in into_batches(again.into_iter()).into_iter().rev() {
                    self.batches.push_front((batch, ScriptRef::Source));
                }
            }
            Ok(value) => answer(messages.collect(), &value),
            Err(error) => {
                if error.is_unrecoverable_error() {
                    self.gone.cancel();
                }
                for message in messages {
                    message.reply_to.send(Err(node_error(&error)));
                }
            }
        }
    }
}

/// Lets everything else that is ready go first. Tokio's `yield_now` would, too, but leaves the task to this thread: behind
/// something that takes its time, no other thread could go on with it.
async fn others_first() {
    let mut gone_first = false;
    poll_fn(|cx| {
        if replace(&mut gone_first, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Gives each of the messages of a batch its answer.
fn answer(messages: Vec<Message>, value: &Value) {
    let answers = decode(value, messages.len());
    for (message, answer) in messages.into_iter().zip(answers) {
        message.reply_to.send(answer);
    }
}

/// The answer to the first of the writes.
async fn first(in_flight: &mut VecDeque<BoxFuture<'static, BatchReply>>) -> BatchReply {
    match in_flight.front_mut() {
        Some(first) => first.await,
        None => pending().await,
    }
}

impl Message {
    /// Whether a ballot that met `NOSCRIPT` may be written once more, behind what was written since. Not an acquire that
    /// nobody waits for any more, nor a replace: their release may be what was written since. They had no effect.
    fn may_be_sent_again(&self) -> bool {
        match self.request.operation {
            Operation::Acquire { .. } => self.reply_to.is_awaited(),
            Operation::Replace { .. } => false,
            Operation::Confirm { .. }
            | Operation::Extend { .. }
            | Operation::Release { .. }
            | Operation::LeaveQueue => true,
        }
    }
}
