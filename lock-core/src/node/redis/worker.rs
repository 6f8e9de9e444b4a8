use std::collections::VecDeque;
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, Fuse, FutureExt as _, OptionFuture};
use futures_util::poll;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::DropGuard;

use super::batch::{Batch, into_batches};
use super::classify::{is_no_script, node_error};
use super::codec::{decode, encode};
use super::declared::DeclaresAll;
use super::pushes::Pushes;
use super::replication::{Replication, if_replicated};
use super::script::ScriptRef;
use crate::node::submission::{Inbox, Message, refuse};
use crate::node::{NodeError, Operation};
use crate::task::let_others_run;

/// The most requests of one write, so that no reply is held up by too many others.
const MAX_BATCH: usize = 128;
/// The most writes without a reply. Requests that come while this many are in flight travel together, a little later. With what
/// is sent beside, it is far below the pipeline buffer, so that a write never waits for room in the buffer.
const MAX_IN_FLIGHT: usize = 8;
/// An only node that replies within this time of the write, or of its last reply, is near: for as long, the worker spins before it
/// sleeps. To fall asleep and be woken would take longer, and make client and server take turns again.
const NEAR: Duration = Duration::from_micros(100);
/// It does not spin while more requests than these are in flight: their callers keep it busy, and it would keep the server from its work.
const SPINS_UP_TO: usize = 64;
/// The most that it spins, whatever the clock says: one that is paused stands still for as long as something runs.
const MAX_SPINS: u8 = 100;
/// A connection on which nothing moves for this long, although replies are due, is given up: the server hangs, or only one half
/// of the link is left. redis-rs itself never reconnects after a timeout.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Takes messages out of its inbox, writes them in batches, and distributes the replies.
pub(super) struct Worker {
    connection: MultiplexedConnection,
    /// Whether votes wait for replicas.
    replication: Option<Replication>,
    declares_all: DeclaresAll,
    /// Moves the bytes.
    pub(super) driver: Fuse<BoxFuture<'static, ()>>,
    pub(super) inbox: Inbox,
    /// Taken out of the inbox for the next write. Empty between writes; kept, so that it is not allocated each time.
    taken: VecDeque<Message>,
    /// Whether more can be submitted.
    open: bool,
    /// What the server said without having been asked.
    pub(super) pushes: Pushes,
    /// Gives the connection up also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// In the order in which they were written, and in which the replies come.
    in_flight: VecDeque<BoxFuture<'static, BatchReply>>,
    /// How many requests they have.
    requests_in_flight: usize,
    /// What there was no room for, to be written before anything else. At most [`MAX_BATCH`] messages, and
    /// those that are sent again to a server that lost the script.
    batches: VecDeque<(Batch, ScriptRef)>,
    /// When the last reply came, or the first one began to be due.
    moved: Instant,
    /// How often the worker may spin until the next reply: not at all if the last one was not that of an only node, and soon.
    spins_left: u8,
}

/// What came back for one write.
struct BatchReply {
    batch: Batch,
    by: ScriptRef,
    /// With whether enough replicas have it.
    result: RedisResult<(Value, Result<(), NodeError>)>,
}

impl Worker {
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: BoxFuture<'static, ()>,
        inbox: Inbox,
        pushes: Pushes,
        replication: Option<Replication>,
        declares_all: DeclaresAll,
    ) -> Self {
        Self {
            connection,
            driver: driver.fuse(),
            inbox,
            taken: VecDeque::with_capacity(MAX_BATCH),
            open: true,
            replication,
            declares_all,
            _ended: pushes.gone().clone().drop_guard(),
            pushes,
            in_flight: VecDeque::new(),
            requests_in_flight: 0,
            batches: VecDeque::new(),
            moved: Instant::now(),
            spins_left: 0,
        }
    }

    /// Writes messages and distributes replies until the connection is lost or stalls, or until the link was dropped and
    /// everything is answered.
    pub(super) async fn run(mut self) {
        let gone = self.pushes.gone().clone();
        // Both wait across all passes: to begin to wait takes a lock.
        let (mut lost, mut stalled) = (pin!(gone.cancelled()), pin!(sleep_until(self.moved + STALLED_AFTER)));
        while self.open || !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = &mut lost => return,
                // Moves the bytes: of what the last pass sent, and of the replies for the next one.
                // If it ends, nothing will come any more.
                () = &mut self.driver => gone.cancel(),
                Some(reply) = OptionFuture::from(self.in_flight.front_mut()) => {
                    self.in_flight.pop_front();
                    self.distribute(reply).await;
                }
                ready = self.inbox.is_ready(), if self.open && self.has_room() => {
                    self.open = ready;
                    // Callers that are ready to submit do so first, and their requests travel with this one. It waits for no
                    // others.
                    let_others_run().await;
                    self.write_waiting().await;
                }
                () = yield_now(), if self.spins() => self.spins_left -= 1,
                () = &mut stalled, if !self.in_flight.is_empty() => {
                    if self.moved.elapsed() >= STALLED_AFTER {
                        return;
                    }
                    stalled.as_mut().reset(self.moved + STALLED_AFTER);
                }
            }
        }
    }

    /// Gives every message of a batch its reply, or sends it again with the source of the script.
    async fn distribute(&mut self, BatchReply { batch, by, result }: BatchReply) {
        let (in_flight, is_only_node) = (self.requests_in_flight, is_of_only_node(&batch));
        self.requests_in_flight -= batch.len();
        if let (Ok(_), Err(error)) = (&result, self.pushes.check()) {
            // What the server has now may not be what the requests were meant for.
            return refuse(batch.into_messages(), &error);
        }
        match result {
            Ok((value, _)) if matches!(by, ScriptRef::Hash) && is_no_script(&value) => {
                self.moved = Instant::now();
                self.send_again(batch, &value);
            }
            Ok((value, replicated)) => {
                let (before, now) = (self.moved, Instant::now());
                let is_near = is_only_node && in_flight <= SPINS_UP_TO && now < before + NEAR;
                (self.moved, self.spins_left) = (now, if is_near { MAX_SPINS } else { 0 });
                // There may be room now.
                self.write_batches().await;
                let replies = decode(&value, batch.len()).map(|reply| if_replicated(reply, &replicated));
                self.reply_in_portions(batch, replies, in_flight, is_only_node, before).await;
            }
            Err(error) => {
                if error.is_unrecoverable_error() {
                    self.pushes.gone().cancel();
                }
                refuse(batch.into_messages(), &node_error(&error));
            }
        }
        self.write_batches().await;
    }

    /// Whether the next reply is so near that the worker does not sleep. It lets other tasks run, and looks at the socket again.
    fn spins(&self) -> bool {
        self.spins_left > 0 && !self.in_flight.is_empty() && self.moved.elapsed() < NEAR
    }

    /// Sends the messages of a batch again that may be, with the source of the script.
    fn send_again(&mut self, batch: Batch, no_script: &Value) {
        let (again, never): (Vec<_>, Vec<_>) = batch.into_messages().partition(may_be_sent_again);
        let replies = decode(no_script, never.len());
        never.into_iter().zip(replies).for_each(|(message, reply)| message.reply_to.send(reply));
        // Before what is not written, and so directly behind what is.
        let count = again.len();
        for batch in into_batches(again.into_iter(), count).into_iter().rev() {
            self.batches.push_front((batch, ScriptRef::Source));
        }
    }

    /// Writes the messages that wait in the inbox.
    pub(super) async fn write_waiting(&mut self) {
        self.inbox.take(&mut self.taken, MAX_BATCH);
        if self.in_flight.is_empty() {
            self.moved = Instant::now();
        }
        let count = self.taken.len();
        let batches = into_batches(self.taken.drain(..), count);
        self.batches.extend(batches.into_iter().map(|batch| (batch, ScriptRef::Hash)));
        self.write_batches().await;
    }

    /// Whether more messages may be taken out of the inbox.
    pub(super) fn has_room(&self) -> bool {
        self.batches.is_empty() && self.in_flight.len() < self.max_in_flight()
    }

    /// A server that waits for replicas executes nothing else on this connection. What is in flight behind that would only wait
    /// there, and an inspection behind it.
    pub(super) fn max_in_flight(&self) -> usize {
        if self.replication.is_some() { 1 } else { MAX_IN_FLIGHT }
    }

    /// Writes batches while there is room. When this returns, their bytes are in the connection's buffer, before the bytes
    /// of any later batch.
    async fn write_batches(&mut self) {
        while self.in_flight.len() < self.max_in_flight()
            && let Some((batch, by)) = self.batches.pop_front()
        {
            self.send(batch, by).await;
        }
    }

    async fn send(&mut self, batch: Batch, by: ScriptRef) {
        let (mut connection, command) =
            (self.connection.clone(), encode(&batch, by, self.declares_all.load(Ordering::Relaxed)));
        let replication = self.replication.filter(|_| batch.has_votes());
        let now = Instant::now();
        batch.messages().for_each(|message| message.reply_to.written_at(now));
        self.requests_in_flight += batch.len();
        // Unconstrained: the first poll must write. If tokio's budget were spent, it would not, and a later batch could overtake.
        let mut write: BoxFuture<'static, BatchReply> = Box::pin(unconstrained(async move {
            let result = match replication {
                None => connection.send_packed_command(&command).await.map(|value| (value, Ok(()))),
                Some(replication) => replication.send(&mut connection, command).await,
            };
            BatchReply { batch, by, result }
        }));
        // If it fails at once, that is distributed with the next pass.
        if let Poll::Ready(reply) = poll!(&mut write) {
            write = Box::pin(ready(reply));
        }
        self.in_flight.push_back(write);
    }
}

/// Whether a message that met `NOSCRIPT` may be sent again, behind what was sent since.
///
/// It was not executed. But the release of an acquire that nobody waits for any longer, or of a replaced lock, may be among
/// what was sent since: the acquire or replace would then leave a key behind.
fn may_be_sent_again(message: &Message) -> bool {
    match message.request.operation {
        Operation::Acquire { .. } => message.reply_to.is_awaited(),
        Operation::Replace { .. } => false,
        Operation::Confirm { .. }
        | Operation::Extend { .. }
        | Operation::Downgrade { .. }
        | Operation::Release { .. }
        | Operation::LeaveQueue => true,
    }
}

/// Whether the requests of a batch are sent to no other node, so that its reply decides. A guess for test votes, which ask each node by
/// itself; nothing but speed depends on it.
fn is_of_only_node(batch: &Batch) -> bool {
    batch.messages().find_map(|message| message.reply_to.nodes()) == Some(1)
}
