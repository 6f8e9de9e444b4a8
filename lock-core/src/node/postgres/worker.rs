use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::classify::{ends_session, node_error, words};
use super::codec::{Batch, column, decode};
use super::connect::{CONNECT_TIMEOUT, Lost, Wire, drive};
use super::last_words::LastWords;
use super::session::Session;
use super::settings::STALLED_AFTER;
use crate::node::submission::{Message, Submission, refuse};
use crate::node::{NodeError, Operation, Request};
use crate::task::let_others_run;

/// The most requests of one statement, and the most submissions that are taken at once.
const MAX_BATCH: usize = 128;
/// The most statements without a reply. While they wait for the disk, what comes is collected for the next ones.
const MAX_IN_FLIGHT: usize = 2;
/// How often expired rows are removed, and how long it is until the next part of large tables.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const NEXT_PART: Duration = Duration::from_millis(100);

/// Takes submissions out of the channel, writes them in batches, and distributes the replies. It owns the connection: what it has not
/// written when it is dropped is never written.
pub(super) struct Worker {
    session: Arc<Session>,
    /// Of the node, for events.
    name: String,
    last_words: LastWords,
    gone: CancellationToken,
    /// Cancels `gone` also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// In the order in which they were written, which is that of the replies.
    in_flight: VecDeque<InFlight>,
    /// Requests that were taken and have not been written. At most those of [`MAX_BATCH`] submissions.
    waiting: VecDeque<Message>,
    /// When expired rows are removed next, and from which page of the tables on; `None` while that is under way.
    sweep_at: Option<Instant>,
    sweep_from: i64,
    /// Whether it was said that an old snapshot slows the server down. Once is enough for a connection.
    has_warned: bool,
    /// When the last reply came, or the first one began to be due.
    moved: Instant,
}

/// A statement that was written.
struct InFlight {
    /// Those that it answers: none if it is a sweep.
    messages: Vec<Message>,
    replies: BoxFuture<'static, Replies>,
}

type Replies = Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>;

impl Worker {
    pub(super) fn new(session: Arc<Session>, name: String, gone: CancellationToken, last_words: LastWords) -> Self {
        let now = Instant::now();
        Self {
            session,
            name,
            last_words,
            _ended: gone.clone().drop_guard(),
            gone,
            in_flight: VecDeque::new(),
            waiting: VecDeque::new(),
            sweep_at: Some(now + SWEEP_INTERVAL),
            sweep_from: 0,
            has_warned: false,
            moved: now,
        }
    }

    /// Writes requests and distributes replies until the connection is lost or stalls, or until every link was dropped and everything
    /// is answered.
    pub(super) async fn run(mut self, mut wire: Wire, mut submissions: mpsc::Receiver<Submission>) {
        let gone = self.gone.clone();
        let mut taken = Vec::with_capacity(MAX_BATCH);
        let mut open = true;
        let mut stalled = pin!(sleep_until(self.moved + STALLED_AFTER));
        let mut sweep = pin!(sleep_until(self.moved + SWEEP_INTERVAL));
        while open || !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = gone.cancelled() => {
                    submissions.close();
                    return self.give_up(&mut wire).await;
                }
                lost = drive(&mut wire) => return self.lost(lost),
                // Also between statements without a pause. It comes seldom enough to hold up nothing.
                () = &mut sweep, if self.sweep_at.is_some() => self.sweep(),
                replies = first(&mut self.in_flight), if !self.in_flight.is_empty() => {
                    let messages = self.in_flight.pop_front().map(|done| done.messages).unwrap_or_default();
                    self.moved = Instant::now();
                    let was_sweep = messages.is_empty();
                    self.distribute(messages, replies);
                    if was_sweep && let Some(at) = self.sweep_at {
                        sweep.as_mut().reset(at);
                    }
                    self.write().await;
                }
                count = submissions.recv_many(&mut taken, MAX_BATCH), if open && self.waiting.is_empty() => {
                    open = count > 0;
                    // Callers that are ready to submit do so first, and their requests travel with this one.
                    let_others_run().await;
                    while taken.len() < MAX_BATCH && let Ok(submission) = submissions.try_recv() {
                        taken.push(submission);
                    }
                    self.waiting.extend(taken.drain(..).flat_map(Submission::into_messages));
                    self.write().await;
                }
                () = &mut stalled, if !self.in_flight.is_empty() => {
                    if self.moved.elapsed() >= STALLED_AFTER {
                        submissions.close();
                        return self.give_up(&mut wire).await;
                    }
                    stalled.as_mut().reset(self.moved + STALLED_AFTER);
                }
            }
        }
    }

    /// Gives the connection up. What the server does for it is cancelled then, and the server may say what that waited for.
    async fn give_up(mut self, wire: &mut Wire) {
        self.gone.cancel();
        self.waiting.clear();
        let answered = async {
            for InFlight { replies, .. } in &mut self.in_flight {
                // It was cancelled, or comes too late.
                _ = replies.await;
            }
        };
        let lost = tokio::select! {
            biased;
            lost = drive(wire) => lost,
            () = answered => Lost::given_up(),
            () = sleep(CONNECT_TIMEOUT) => Lost::given_up(),
        };
        if lost.by_server {
            self.last_words.note(lost.reason.clone());
        }
        for InFlight { messages, .. } in self.in_flight {
            refuse(messages, &NodeError::ConnectionLost { reason: lost.reason.clone() });
        }
    }

    /// Tells everybody whose reply is missing why the connection is lost. If the server ended it, it may have said so in its last reply.
    fn lost(self, Lost { reason, by_server }: Lost) {
        let mut said = by_server.then(|| reason.clone());
        for InFlight { messages, replies } in self.in_flight {
            // Nothing counts of what it replied with success: see `drive`.
            if let Some(Err(error)) = replies.now_or_never()
                && let Some(words) = words(&error)
            {
                said = Some(words);
                refuse(messages, &node_error(&error));
            } else {
                let reason = said.as_ref().unwrap_or(&reason).clone();
                refuse(messages, &NodeError::ConnectionLost { reason });
            }
        }
        match said {
            Some(words) => self.last_words.note(words),
            None => self.last_words.forget(),
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
        let now = Instant::now();
        messages.iter().for_each(|message| message.reply_to.written_at(now));
        let session = Arc::clone(&self.session);
        // Unconstrained: the first poll hands it to the connection. If tokio's budget were spent, a later one could overtake.
        let mut replies: BoxFuture<'static, Replies> = Box::pin(unconstrained(async move {
            session.answer(session.client.query(&session.votes, &batch.parameters(session.id.as_text()))).await
        }));
        match futures_util::poll!(&mut replies) {
            Poll::Ready(replies) => self.distribute(messages, replies),
            Poll::Pending => self.in_flight.push_back(InFlight { messages, replies }),
        }
    }

    /// Gives every message of a batch its reply.
    fn distribute(&mut self, messages: Vec<Message>, replies: Replies) {
        let error = match replies {
            Ok(rows) if messages.is_empty() => return self.swept(rows.first()),
            Ok(rows) if rows.len() == messages.len() => {
                self.last_words.forget();
                for (message, row) in messages.into_iter().zip(&rows) {
                    message.reply_to.send(decode(row));
                }
                return;
            }
            Ok(rows) => NodeError::Protocol { reply: format!("{} replies to {} requests", rows.len(), messages.len()) },
            Err(error) => {
                if let Some(words) = words(&error) {
                    self.last_words.note(words);
                }
                node_error(&error)
            }
        };
        if ends_session(&error) {
            self.gone.cancel();
        }
        if messages.is_empty() {
            self.swept(None);
        }
        refuse(messages, &error);
    }

    /// Removes expired rows from a part of the tables. Nobody waits for that.
    fn sweep(&mut self) {
        self.sweep_at = None;
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        let (session, from) = (Arc::clone(&self.session), self.sweep_from);
        let replies = Box::pin(async move {
            session.answer(session.client.query(&session.sweep, &[session.id.as_text(), &from])).await
        });
        self.in_flight.push_back(InFlight { messages: Vec::new(), replies });
    }

    /// Goes on with the next part of the tables soon, or from the first one later.
    fn swept(&mut self, row: Option<&tokio_postgres::Row>) {
        self.sweep_from = row.and_then(|row| column(row, 0).ok()).unwrap_or(0);
        self.sweep_at = Some(Instant::now() + if self.sweep_from > 0 { NEXT_PART } else { SWEEP_INTERVAL });
        if row.is_some_and(|row| column(row, 1) == Ok(true)) && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(name: "lock.old_snapshot", node = self.name,
                "a transaction of the database has been open for a minute; locks become slower until it ends, because rows of \
                 released ones cannot be removed. Find it in pg_stat_activity (backend_xmin); idle_in_transaction_session_timeout \
                 ends such transactions");
        }
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

/// The replies to the first of the statements; never resolves if there is none.
async fn first(in_flight: &mut VecDeque<InFlight>) -> Replies {
    match in_flight.front_mut() {
        Some(first) => (&mut first.replies).await,
        None => pending().await,
    }
}
