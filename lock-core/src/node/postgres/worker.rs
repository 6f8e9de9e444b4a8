use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture, join_all};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::types::ToSql;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::classify::{ends_session, node_error, words};
use super::codec::{decode, encode};
use super::connect::{CONNECT_TIMEOUT, Lost, Wire, drive};
use super::session::Session;
use super::settings::STALLED_AFTER;
use crate::mutex::Mutex;
use crate::node::submission::{Inbox, Message, refuse};
use crate::node::{NodeError, Operation, Request};
use crate::task::let_others_run;

/// The most requests of one statement.
const MAX_BATCH: usize = 128;
/// The most statements without a reply. While they wait for the disk, what comes is collected for the next ones.
const MAX_IN_FLIGHT: usize = 2;

/// Takes messages out of its inbox, writes them in batches, and distributes the replies. It owns the connection: what it has not
/// written when it is dropped is never written.
pub(super) struct Worker {
    session: Arc<Session>,
    last_words: LastWords,
    gone: CancellationToken,
    /// Cancels `gone` also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// In the order in which they were written. The replies come in the same order.
    in_flight: VecDeque<InFlight>,
    /// Requests that were taken and have not been written: at most [`MAX_BATCH`].
    waiting: VecDeque<Message>,
    /// When the last reply came, or the first one began to be due.
    moved: Instant,
}

/// Why the server executes nothing, in its words, if it said so; `None` once it executes a statement. Kept when another connection is
/// opened: what is wrong may be wrong there as well.
pub(super) type LastWords = Arc<Mutex<Option<String>>>;

/// A statement that was written.
struct InFlight {
    /// Those that it answers.
    messages: Vec<Message>,
    replies: BoxFuture<'static, Replies>,
}

type Replies = Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>;

impl Worker {
    pub(super) fn new(session: Arc<Session>, gone: CancellationToken, last_words: LastWords) -> Self {
        let (in_flight, waiting, moved) = (VecDeque::new(), VecDeque::new(), Instant::now());
        Self { session, last_words, _ended: gone.clone().drop_guard(), gone, in_flight, waiting, moved }
    }

    /// Writes requests and distributes replies until the connection is lost or stalls, or until every link was dropped and everything
    /// is answered.
    pub(super) async fn run(mut self, mut wire: Wire, inbox: Inbox) {
        let gone = self.gone.clone();
        let mut open = true;
        while open || !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = gone.cancelled() => {
                    inbox.close();
                    return self.give_up(&mut wire).await;
                }
                lost = drive(&mut wire) => return self.lost(lost),
                Some(replies) = OptionFuture::from(self.in_flight.front_mut().map(|first| &mut first.replies)) => {
                    let messages = self.in_flight.pop_front().map(|done| done.messages).unwrap_or_default();
                    self.moved = Instant::now();
                    self.distribute(messages, replies);
                    self.write().await;
                }
                ready = inbox.is_ready(), if open && self.waiting.is_empty() => {
                    open = ready;
                    // Callers that are ready to submit do so first, and their requests travel with this one.
                    let_others_run().await;
                    inbox.take(&mut self.waiting, MAX_BATCH);
                    self.write().await;
                }
                () = sleep_until(self.moved + STALLED_AFTER), if !self.in_flight.is_empty() => gone.cancel(),
            }
        }
    }

    /// Gives the connection up. What the server does for it is cancelled then, and the server may say what that waited for.
    async fn give_up(mut self, wire: &mut Wire) {
        self.waiting.clear();
        // They were cancelled, or come too late.
        let answered = join_all(self.in_flight.iter_mut().map(|InFlight { replies, .. }| replies));
        let stalled = Lost { reason: "it stalled, and was given up".into(), by_server: false };
        let lost = tokio::select! {
            biased;
            lost = drive(wire) => lost,
            _ = answered => stalled,
            () = sleep(CONNECT_TIMEOUT) => stalled,
        };
        if lost.by_server {
            *self.last_words.lock() = Some(lost.reason.clone());
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
        *self.last_words.lock() = said;
    }

    /// Writes what waits, while there is room.
    async fn write(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT && !self.waiting.is_empty() {
            let head = &self.waiting[0].request;
            let count = self.waiting.iter().take_while(|next| same_head(head, &next.request)).count();
            for messages in releases_first(self.waiting.drain(..count)) {
                self.send(messages).await;
            }
        }
    }

    /// Sends a statement. When this returns, it has its place in the order of the connection.
    async fn send(&mut self, messages: Vec<Message>) {
        let Some(first) = messages.first() else { return };
        let statement = if messages.len() == 1 { &self.session.vote } else { &self.session.votes };
        let parameters = encode(&first.request, &messages);
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        let now = Instant::now();
        messages.iter().for_each(|message| message.reply_to.written_at(now));
        let (session, statement) = (Arc::clone(&self.session), statement.clone());
        // Unconstrained: the first poll hands it to the connection. If tokio's budget were spent, a later one could overtake.
        let mut replies: BoxFuture<'static, Replies> = Box::pin(unconstrained(async move {
            let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|one| &**one as _).collect();
            session.query(&statement, &parameters).await
        }));
        match futures_util::poll!(&mut replies) {
            Poll::Ready(replies) => self.distribute(messages, replies),
            Poll::Pending => self.in_flight.push_back(InFlight { messages, replies }),
        }
    }

    /// Gives every message of a batch its reply.
    fn distribute(&mut self, messages: Vec<Message>, replies: Replies) {
        let error = match replies {
            Ok(rows) if rows.len() == messages.len() => {
                *self.last_words.lock() = None;
                for (message, row) in messages.into_iter().zip(&rows) {
                    message.reply_to.send(decode(row));
                }
                return;
            }
            Ok(rows) => NodeError::Protocol { reply: format!("{} replies to {} requests", rows.len(), messages.len()) },
            Err(error) => {
                if let Some(words) = words(&error) {
                    *self.last_words.lock() = Some(words);
                }
                node_error(&error)
            }
        };
        if ends_session(&error) {
            self.gone.cancel();
        }
        refuse(messages, &error);
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
