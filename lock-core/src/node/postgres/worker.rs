use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::classify::{ends_session, node_error};
use super::codec::{Batch, decode};
use super::connect::{Wire, drive};
use super::session::{STALLED_AFTER, Session};
use crate::node::{NodeError, Operation, ReplySender, Request};
use crate::task::let_others_run;

/// The most requests of one statement, and the most submissions that are taken at once.
const MAX_BATCH: usize = 128;
/// The most statements without a reply. While they wait for the disk, what comes is collected for the next ones.
const MAX_IN_FLIGHT: usize = 2;
/// How often expired rows are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// A request on its way to the connection, and where its reply goes.
pub(super) struct Message {
    pub(super) request: Request,
    pub(super) reply_to: ReplySender,
}

/// Takes submissions out of the channel, writes them in batches, and distributes the replies. It owns the connection: what it has not
/// written when it is dropped is never written.
pub(super) struct Worker {
    session: Arc<Session>,
    /// Of the node, for events.
    name: String,
    gone: CancellationToken,
    /// Cancels `gone` also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// In the order in which they were written, which is that of the replies.
    in_flight: VecDeque<BoxFuture<'static, BatchReply>>,
    /// Requests that were taken and have not been written. At most those of [`MAX_BATCH`] submissions.
    waiting: VecDeque<Message>,
    /// Whether it was said that an old snapshot slows the server down. Once is enough for a connection.
    has_warned: Arc<AtomicBool>,
    /// When the last reply came, or the first one began to be due.
    moved: Instant,
}

/// What came back for one statement.
struct BatchReply {
    messages: Vec<Message>,
    replies: Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>,
}

impl Worker {
    pub(super) fn new(session: Arc<Session>, name: String, gone: CancellationToken) -> Self {
        let (in_flight, waiting) = (VecDeque::new(), VecDeque::new());
        let has_warned = Arc::default();
        Self {
            session,
            name,
            _ended: gone.clone().drop_guard(),
            gone,
            in_flight,
            waiting,
            has_warned,
            moved: Instant::now(),
        }
    }

    /// Writes requests and distributes replies until the connection is lost or stalls, or until every link was dropped and everything
    /// is answered.
    pub(super) async fn run(mut self, mut wire: Wire, mut submissions: mpsc::Receiver<Vec<Message>>) {
        let gone = self.gone.clone();
        let mut taken = Vec::with_capacity(MAX_BATCH);
        let mut open = true;
        let mut stalled = pin!(sleep_until(self.moved + STALLED_AFTER));
        let mut sweep = pin!(sleep_until(self.moved + SWEEP_INTERVAL));
        while open || !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = gone.cancelled() => return,
                () = drive(&mut wire) => return,
                reply = first(&mut self.in_flight), if !self.in_flight.is_empty() => {
                    self.in_flight.pop_front();
                    self.moved = Instant::now();
                    self.distribute(reply);
                    self.write().await;
                }
                count = submissions.recv_many(&mut taken, MAX_BATCH), if open && self.waiting.is_empty() => {
                    open = count > 0;
                    // Callers that are ready to submit do so first, and their requests travel with this one.
                    let_others_run().await;
                    while taken.len() < MAX_BATCH && let Ok(submission) = submissions.try_recv() {
                        taken.push(submission);
                    }
                    self.waiting.extend(taken.drain(..).flatten());
                    self.write().await;
                }
                () = &mut sweep, if self.in_flight.is_empty() => {
                    sweep.as_mut().reset(Instant::now() + SWEEP_INTERVAL);
                    self.sweep();
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

    /// Writes what waits, while there is room.
    async fn write(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT && !self.waiting.is_empty() {
            let count = self.waiting.len().min(MAX_BATCH);
            let head = self.waiting.iter().take_while(|next| same_head(&self.waiting[0].request, &next.request));
            let count = head.take(count).count();
            for messages in releases_first(self.waiting.drain(..count)) {
                self.send(messages).await;
            }
        }
    }

    /// Sends a statement. When this returns, it has its place in the order of the connection.
    async fn send(&mut self, messages: Vec<Message>) {
        let Some(batch) = Batch::of(&messages) else { return };
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        messages.iter().for_each(|message| message.reply_to.written());
        let session = Arc::clone(&self.session);
        // Unconstrained: the first poll hands it to the connection. If tokio's budget were spent, a later one could overtake.
        let mut statement: BoxFuture<'static, BatchReply> = Box::pin(unconstrained(async move {
            let replies = session.answer(session.client.query(&session.votes, &batch.parameters(&session.id))).await;
            BatchReply { messages, replies }
        }));
        match futures_util::poll!(&mut statement) {
            Poll::Ready(reply) => self.distribute(reply),
            Poll::Pending => self.in_flight.push_back(statement),
        }
    }

    /// Gives every message of a batch its reply.
    fn distribute(&mut self, BatchReply { messages, replies }: BatchReply) {
        let error = match replies {
            Ok(rows) if rows.len() == messages.len() => {
                for (message, row) in messages.into_iter().zip(&rows) {
                    message.reply_to.send(decode(row));
                }
                return;
            }
            Ok(rows) => NodeError::Protocol { reply: format!("{} replies to {} requests", rows.len(), messages.len()) },
            Err(error) => node_error(&error),
        };
        if ends_session(&error) {
            self.gone.cancel();
        }
        super::link::refuse(messages, &error);
    }

    /// Removes expired rows. Nobody waits for that.
    fn sweep(&mut self) {
        let (session, has_warned, node) = (Arc::clone(&self.session), Arc::clone(&self.has_warned), self.name.clone());
        let statement: BoxFuture<'static, BatchReply> = Box::pin(async move {
            let swept = session.answer(session.client.query_one(&session.sweep, &[])).await;
            if swept.as_ref().is_ok_and(|row| row.get(0)) && !has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(name: "lock.old_snapshot", node,
                    "a transaction of the database has been open for a minute; locks become slower until it ends, because rows of \
                     released ones cannot be removed. Find it in pg_stat_activity (backend_xmin); idle_in_transaction_session_timeout \
                     ends such transactions");
            }
            BatchReply { messages: Vec::new(), replies: swept.map(|_| Vec::new()) }
        });
        self.in_flight.push_back(statement);
        self.moved = Instant::now();
    }
}

/// Whether two requests agree in what a batch has once.
fn same_head(one: &Request, other: &Request) -> bool {
    let same_keyspace = Arc::ptr_eq(one.keys.keyspace(), other.keys.keyspace());
    same_keyspace && (one.epoch, one.waiter, one.polls) == (other.epoch, other.waiter, other.polls)
}

/// Divides requests into two statements: releases do not wait for the disk, and those that have to wait hold up nobody whom a release
/// wakes. A release stays behind what it has to follow.
fn releases_first(messages: impl Iterator<Item = Message>) -> [Vec<Message>; 2] {
    let (mut releases, mut others): (Vec<Message>, Vec<Message>) = (Vec::new(), Vec::new());
    for message in messages {
        let Request { keys, operation, .. } = &message.request;
        let is_release = matches!(operation, Operation::Release { .. } | Operation::LeaveQueue);
        if is_release && others.iter().all(|other| !other.request.keys.touches(keys)) {
            releases.push(message);
        } else {
            others.push(message);
        }
    }
    [releases, others]
}

/// The reply to the first of the statements; never resolves if there is none.
async fn first(in_flight: &mut VecDeque<BoxFuture<'static, BatchReply>>) -> BatchReply {
    match in_flight.front_mut() {
        Some(first) => first.await,
        None => pending().await,
    }
}
