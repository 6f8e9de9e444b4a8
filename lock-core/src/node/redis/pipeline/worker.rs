use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::batch::{Batch, into_batches};
use super::message::{Message, Submission};
use crate::node::NodeError;
use crate::node::redis::classify::{is_no_script, node_error};
use crate::node::redis::codec::{decode, encode};
use crate::node::redis::replication::{Replication, if_replicated};
use crate::node::redis::script::ScriptRef;
use crate::task::let_others_run;

/// The most requests of one write, so that no reply is held up by too many others, and the most submissions that are taken at once.
const MAX_BATCH: usize = 128;
/// The most writes without a reply. What comes while there are so many travels together, a little later. It is far below the
/// pipeline buffer, so that a write never waits for room in the buffer.
const MAX_IN_FLIGHT: usize = 8;
/// This many requests are written before further replies are distributed.
const WORTH_A_WRITE: usize = 8;
/// A connection on which nothing moves for this long, although replies are due, is given up: the server hangs, or only one half
/// of the link is left. redis-rs itself never reconnects after a timeout.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Takes messages out of the channel, writes them in batches, and distributes the replies.
pub(super) struct Worker {
    connection: MultiplexedConnection,
    /// Whether votes wait for replicas.
    replication: Option<Replication>,
    gone: CancellationToken,
    /// Cancels `gone` also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// In the order in which they were written, which is that of the replies.
    in_flight: VecDeque<BoxFuture<'static, BatchReply>>,
    /// The messages of the next write. Empty between writes; kept, so that it is not allocated each time.
    messages: Vec<Message>,
    /// What there was no room for, to be written before anything else. At most the messages of [`MAX_BATCH`] submissions, and
    /// those that are sent again to a server that lost the script.
    batches: VecDeque<(Batch<Message>, ScriptRef)>,
    /// When the last reply came, or the first one began to be due.
    moved: Instant,
}

/// What came back for one write.
struct BatchReply {
    batch: Batch<Message>,
    by: ScriptRef,
    /// With whether enough replicas have it.
    result: RedisResult<(Value, Result<(), NodeError>)>,
}

impl Worker {
    pub(super) fn new(
        connection: MultiplexedConnection,
        gone: CancellationToken,
        replication: Option<Replication>,
    ) -> Self {
        Self {
            connection,
            replication,
            _ended: gone.clone().drop_guard(),
            gone,
            in_flight: VecDeque::new(),
            messages: Vec::new(),
            batches: VecDeque::new(),
            moved: Instant::now(),
        }
    }

    /// Writes messages and distributes replies until the connection is lost or stalls, or until every handle was dropped and
    /// everything is answered.
    pub(super) async fn run(mut self, mut driver: BoxFuture<'static, ()>, mut submissions: mpsc::Receiver<Submission>) {
        let gone = self.gone.clone();
        let mut taken = Vec::with_capacity(MAX_BATCH);
        let (mut open, mut driven) = (true, true);
        let mut stalled = pin!(sleep_until(self.moved + STALLED_AFTER));
        while open || !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = gone.cancelled() => return,
                // Moves the bytes: of what the last pass sent, and of the replies for the next one.
                () = &mut driver, if driven => driven = false,
                reply = first(&mut self.in_flight), if !self.in_flight.is_empty() => {
                    self.in_flight.pop_front();
                    if reply.result.is_ok() {
                        self.moved = Instant::now();
                    }
                    let count = reply.batch.messages().count();
                    self.distribute(reply);
                    self.write_batches().await;
                    // Many callers that got a reply submit the next request at once. The node should have work while the other
                    // replies are distributed.
                    if count >= WORTH_A_WRITE {
                        let_others_run().await;
                        if submissions.len() >= WORTH_A_WRITE && self.has_room() {
                            self.write_waiting(&mut taken, &mut submissions).await;
                        }
                    }
                }
                count = submissions.recv_many(&mut taken, MAX_BATCH), if open && self.has_room() => {
                    open = count > 0;
                    // Callers that are ready to submit do so first, and their requests travel with this one. It waits for no
                    // others.
                    let_others_run().await;
                    self.write_waiting(&mut taken, &mut submissions).await;
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

    /// Writes these submissions, and with them what waits in the channel.
    async fn write_waiting(&mut self, taken: &mut Vec<Submission>, submissions: &mut mpsc::Receiver<Submission>) {
        while taken.len() < MAX_BATCH
            && let Ok(submission) = submissions.try_recv()
        {
            taken.push(submission);
        }
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        let mut taken = taken.drain(..).peekable();
        while taken.peek().is_some() {
            // What was submitted together stays together. Several sets of locks may be more than one write.
            while let Some(next) = taken.next_if(|next| self.fits(next)) {
                self.messages.extend(next.into_messages());
            }
            let batches = into_batches(self.messages.drain(..));
            self.batches.extend(batches.into_iter().map(|batch| (batch, ScriptRef::Hash)));
        }
        self.write_batches().await;
    }

    /// Whether a submission can be part of the next write.
    fn fits(&self, next: &Submission) -> bool {
        self.messages.is_empty() || self.messages.len() + next.len() <= MAX_BATCH
    }

    /// Whether more messages may be taken out of the channel.
    fn has_room(&self) -> bool {
        self.batches.is_empty() && self.in_flight.len() < self.max_in_flight()
    }

    /// A server that waits for replicas executes nothing else on this connection. What is in flight behind that would only wait
    /// there, and an inspection behind it.
    fn max_in_flight(&self) -> usize {
        if self.replication.is_some() { 1 } else { MAX_IN_FLIGHT }
    }

    /// Writes batches while there is room. When this returns, their bytes are in the connection's buffer, before those of any
    /// later batch.
    async fn write_batches(&mut self) {
        while self.in_flight.len() < self.max_in_flight()
            && let Some((batch, by)) = self.batches.pop_front()
        {
            self.send(batch, by).await;
        }
    }

    async fn send(&mut self, batch: Batch<Message>, by: ScriptRef) {
        let (mut connection, command) = (self.connection.clone(), encode(&batch, by));
        let replication = self.replication.filter(|_| batch.has_votes());
        batch.messages().for_each(|message| message.reply_to.written());
        // Unconstrained: the first poll must write. If tokio's budget were spent, it would not, and a later batch could overtake.
        let mut write: BoxFuture<'static, BatchReply> = Box::pin(unconstrained(async move {
            let result = match replication {
                None => connection.send_packed_command(&command).await.map(|value| (value, Ok(()))),
                Some(replication) => replication.send(&mut connection, command).await,
            };
            BatchReply { batch, by, result }
        }));
        match futures_util::poll!(&mut write) {
            Poll::Ready(reply) => self.distribute(reply),
            Poll::Pending => self.in_flight.push_back(write),
        }
    }

    /// Gives every message of a batch its reply, or sends it again with the source of the script.
    fn distribute(&mut self, BatchReply { batch, by, result }: BatchReply) {
        let messages = batch.into_messages();
        match result {
            Ok((value, _)) if matches!(by, ScriptRef::Hash) && is_no_script(&value) => {
                let (again, never): (Vec<_>, Vec<_>) = messages.partition(Message::may_be_sent_again);
                reply_to_all(never, &value, &Ok(()));
                // Before what is not written, and so directly behind what is.
                for batch in into_batches(again.into_iter()).into_iter().rev() {
                    self.batches.push_front((batch, ScriptRef::Source));
                }
            }
            Ok((value, replicated)) => reply_to_all(messages.collect(), &value, &replicated),
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

/// Gives each message of a batch its reply.
fn reply_to_all(messages: Vec<Message>, value: &Value, replicated: &Result<(), NodeError>) {
    let replies = decode(value, messages.len());
    for (message, reply) in messages.into_iter().zip(replies) {
        message.reply_to.send(if_replicated(reply, replicated));
    }
}

/// The reply to the first of the writes; never resolves if there is none.
async fn first(in_flight: &mut VecDeque<BoxFuture<'static, BatchReply>>) -> BatchReply {
    match in_flight.front_mut() {
        Some(first) => first.await,
        None => pending().await,
    }
}
