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

use super::calls::{Call, deal};
use super::classify::{is_no_script, node_error};
use super::driven::Driven;
use super::scripts::{By, decode, encode};
use crate::node::{Answer, Ballot, NodeError, Request};

/// Ballots that may wait to be written. Beyond it a node is not keeping up, and says so.
const CAPACITY: usize = 8192;
/// Ballots that travel in one write at most, so that one answer is not held up by too many others.
const MAX_BATCH: usize = 128;
/// Writes that may be unanswered. What comes while there are so many travels together, a little later; and it is far below the
/// pipeline buffer, so that a write never waits for room in it.
const MAX_IN_FLIGHT: usize = 8;
/// So many ballots are worth a write before further answers are handed out.
const WORTH_A_WRITE: usize = 8;
/// After so many letters that were written one by one, the next is taken for a lone one, too.
const LONE_AFTER: usize = 4;
/// But one in so many waits for others all the same, or it would not be seen that there are some who come just behind: a release,
/// and the next acquire of the lock. An odd number, as they come by turns.
const LOOK_ROUND: usize = 15;
/// A connection on which nothing moved for this long, though something is expected, is given up: a hung server, or a link
/// of which only one half is left. redis-rs itself never reconnects after a timeout.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The way of ballots to one connection: in the order in which they were handed over, and together when they come
/// together.
#[derive(Clone)]
pub(super) struct Mailbox {
    letters: mpsc::Sender<Letter>,
    delivery: Arc<Driven>,
}

struct Letter {
    ballot: Ballot,
    answer: Answer,
}

impl AsRef<Ballot> for Letter {
    fn as_ref(&self) -> &Ballot {
        &self.ballot
    }
}

impl Mailbox {
    /// Starts the delivery over `connection`. It ends, and `gone` with it, when the connection is lost or stalls, or when
    /// the mailbox was dropped and everything in it is answered.
    pub(super) fn open(
        connection: MultiplexedConnection,
        driver: BoxFuture<'static, ()>,
        gone: CancellationToken,
    ) -> Self {
        let (sender, letters) = mpsc::channel(CAPACITY);
        let eager = Arc::new(AtomicBool::new(true));
        let delivery = Delivery {
            connection,
            // A runtime that is shut down takes the delivery with it; the connection is gone then, too.
            _ended: gone.clone().drop_guard(),
            gone,
            in_flight: VecDeque::new(),
            dealt: VecDeque::new(),
            lone: LONE_AFTER,
            eager: Arc::clone(&eager),
            moved: Instant::now(),
        };
        let delivery = Driven::spawn(eager, delivery.run(driver, letters));
        Self { letters: sender, delivery }
    }

    /// Hands a ballot over, now.
    pub(super) fn send(&self, ballot: Ballot, answer: Answer) {
        // A lone letter is written by the one who brings it.
        self.delivery.drive(|| {
            let (error, letter) = match self.letters.try_send(Letter { ballot, answer }) {
                Ok(()) => return,
                Err(TrySendError::Full(letter)) => (NodeError::Overloaded, letter),
                Err(TrySendError::Closed(letter)) => {
                    (NodeError::Unreachable { reason: "connection lost".into() }, letter)
                }
            };
            letter.answer.send(Err(error));
        });
    }
}

struct Delivery {
    connection: MultiplexedConnection,
    gone: CancellationToken,
    _ended: DropGuard,
    /// In the order in which they were written, which is that of the answers.
    in_flight: VecDeque<BoxFuture<'static, Answered>>,
    /// What there was no room for yet, to be written before anything else. At most one batch, and what a server that lost the
    /// script is to be sent once more.
    dealt: VecDeque<(Call<Letter>, By)>,
    /// How many letters were written one by one, up to the last.
    lone: usize,
    /// Whether the next one is likely to be alone, too.
    eager: Arc<AtomicBool>,
    /// When something was answered last, or began to be expected.
    moved: Instant,
}

/// What came back for one write.
struct Answered {
    call: Call<Letter>,
    by: By,
    result: RedisResult<Value>,
}

impl Delivery {
    async fn run(mut self, mut driver: BoxFuture<'static, ()>, mut letters: mpsc::Receiver<Letter>) {
        let gone = self.gone.clone();
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let (mut open, mut driven) = (true, true);
        let mut stalled = pin!(sleep_until(self.moved + STALLED_AFTER));
        while open || !self.in_flight.is_empty() {
            let alone = self.lone >= LONE_AFTER && !self.lone.is_multiple_of(LOOK_ROUND);
            // Seldom changed, and so it is near to all who look.
            if self.eager.load(Ordering::Relaxed) != alone {
                self.eager.store(alone, Ordering::Relaxed);
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
                    let together = answered.call.letters().count();
                    self.hand_out(answered);
                    self.write_dealt().await;
                    // Of many who were answered, many vote again at once. The node is to work while others are answered.
                    if together >= WORTH_A_WRITE {
                        others_first().await;
                        if letters.len() >= WORTH_A_WRITE && self.has_room() {
                            self.write_waiting(&mut batch, &mut letters).await;
                        }
                    }
                }
                count = letters.recv_many(&mut batch, MAX_BATCH), if open && self.has_room() => {
                    open = count > 0;
                    // Whoever is ready to vote, too, goes first: their votes travel with this one. It waits for nobody else.
                    if !alone {
                        others_first().await;
                    }
                    self.write_waiting(&mut batch, &mut letters).await;
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

    /// Writes a batch, filled up with what waits in the mailbox.
    async fn write_waiting(&mut self, batch: &mut Vec<Letter>, letters: &mut mpsc::Receiver<Letter>) {
        while batch.len() < MAX_BATCH
            && let Ok(letter) = letters.try_recv()
        {
            batch.push(letter);
        }
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        self.lone = if batch.len() == 1 { self.lone + 1 } else { 0 };
        self.dealt.extend(deal(batch.drain(..)).into_iter().map(|call| (call, By::Hash)));
        self.write_dealt().await;
    }

    /// Whether more letters can be taken out of the mailbox.
    fn has_room(&self) -> bool {
        self.dealt.is_empty() && self.in_flight.len() < MAX_IN_FLIGHT
    }

    /// Writes calls while there is room. When this returns, their bytes stand in the connection's queue, before those of any later
    /// ones.
    async fn write_dealt(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT
            && let Some((call, by)) = self.dealt.pop_front()
        {
            self.send(call, by).await;
        }
    }

    async fn send(&mut self, call: Call<Letter>, by: By) {
        let (mut connection, command) = (self.connection.clone(), encode(&call, by));
        // Unconstrained: the first poll writes. With tokio's budget spent it would not, and a later batch could overtake.
        let mut write: BoxFuture<'static, Answered> = Box::pin(unconstrained(async move {
            let result = connection.send_packed_command(&command).await;
            Answered { call, by, result }
        }));
        match futures_util::poll!(&mut write) {
            Poll::Ready(answered) => self.hand_out(answered),
            Poll::Pending => self.in_flight.push_back(write),
        }
    }

    fn hand_out(&mut self, Answered { call, by, result }: Answered) {
        let letters = call.into_letters();
        match result {
            Ok(value) if matches!(by, By::Hash) && is_no_script(&value) => {
                let (again, never): (Vec<_>, Vec<_>) = letters.partition(Letter::may_be_sent_again);
                answer(never, &value);
                // Before what is not written yet, and so behind what is.
                for call in deal(again.into_iter()).into_iter().rev() {
                    self.dealt.push_front((call, By::Source));
                }
            }
            Ok(value) => answer(letters.collect(), &value),
            Err(error) => {
                if error.is_unrecoverable_error() {
                    self.gone.cancel();
                }
                for letter in letters {
                    letter.answer.send(Err(node_error(&error)));
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

/// Gives each of the letters of a call its answer.
fn answer(letters: Vec<Letter>, value: &Value) {
    let answers = decode(value, letters.len());
    for (letter, answer) in letters.into_iter().zip(answers) {
        letter.answer.send(answer);
    }
}

/// The answer to the first of the writes.
async fn first(in_flight: &mut VecDeque<BoxFuture<'static, Answered>>) -> Answered {
    match in_flight.front_mut() {
        Some(first) => first.await,
        None => pending().await,
    }
}

impl Letter {
    /// Whether a ballot that met `NOSCRIPT` may be written once more, behind what was written since. Not an acquire that
    /// nobody waits for any more, nor a replace: their release may be what was written since. They had no effect.
    fn may_be_sent_again(&self) -> bool {
        match self.ballot.request {
            Request::Acquire { .. } => self.answer.is_awaited(),
            Request::Replace { .. } => false,
            Request::Confirm { .. } | Request::Extend { .. } | Request::Release { .. } => true,
        }
    }
}
