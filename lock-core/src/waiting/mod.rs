//! Who may try next, and when.
//!
//! The callers of one manager that want one resource stand in a [`Line`](line), first come first served. Only the first of
//! them, who has the [`Seat`], talks to the nodes: it takes the lock, and holds the seat as long as it holds the lock. When it
//! leaves, the next one gets the seat, and with it, if it can be, the lock.
//!
//! Between managers the nodes keep queues ([`Request`](crate::node::Request)), in which each line has one place. The first of
//! a line waits there until it is [called](calls), and a timer stands behind every call.

mod calls;
mod line;
mod seat;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::calls::Calls;
use self::line::{Line, Number, Pass};
pub(crate) use self::line::{Seen, Wants};
pub(crate) use self::seat::{Seat, Woken};
use crate::engine::{Engine, Tenure};
use crate::error::NodeVote;
use crate::node::LockKeys;

/// The lines of a manager.
pub(crate) struct Waiting {
    engine: Arc<Engine>,
    /// By lock key. Only those in which someone has the seat: it goes with the last one.
    lines: Mutex<HashMap<Arc<str>, Line>>,
    calls: Arc<Calls>,
    max_waiters: usize,
    closing: CancellationToken,
}

/// How a caller came to the seat.
pub(crate) enum Entered {
    /// The lock is to be taken from the nodes.
    First(Seat),
    /// The one before handed the lock over.
    Holder(Tenure, Seat),
}

/// Why a caller did not come to the seat.
pub(crate) enum NotEntered {
    /// So many wait already.
    QueueFull(usize),
    /// Its time is over. With what the first of the line saw last.
    TimedOut(Seen),
    /// The first of the line found no majority of the nodes.
    NoQuorum(Arc<[NodeVote]>),
    /// The manager was closed.
    Closed,
}

impl Waiting {
    pub(crate) fn new(engine: &Arc<Engine>, max_waiters: usize, closing: CancellationToken) -> Self {
        Self { engine: Arc::clone(engine), lines: Mutex::default(), calls: Calls::new(engine), max_waiters, closing }
    }

    /// Stands in line until it is the caller's turn.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the line at once; a seat or a lock that was just passed to it goes to the next one.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        keys: &LockKeys,
        wants: Wants,
        until: Instant,
    ) -> Result<Entered, NotEntered> {
        let (place, mut passed) = match self.lock().entry(keys.lock_shared()) {
            std::collections::hash_map::Entry::Vacant(none) => {
                none.insert(Line::default());
                return Ok(Entered::First(Seat::new(self, keys)));
            }
            std::collections::hash_map::Entry::Occupied(mut line) => {
                let (pass, passed) = oneshot::channel();
                let number = line.get_mut().enter(wants, pass, self.max_waiters).map_err(NotEntered::QueueFull)?;
                (InLine { waiting: self, keys, number }, passed)
            }
        };
        tokio::select! {
            biased;
            passed = &mut passed => match passed {
                Ok(Pass::Seat(seat)) => Ok(Entered::First(seat)),
                Ok(Pass::Lock(tenure, seat)) => Ok(Entered::Holder(tenure, seat)),
                Ok(Pass::NoQuorum(votes)) => Err(NotEntered::NoQuorum(votes)),
                // It is not dropped before it was used: whoever leaves the seat passes it on.
                Err(_) => Err(NotEntered::Closed),
            },
            () = self.closing.cancelled() => Err(NotEntered::Closed),
            () = sleep_until(until) => Err(NotEntered::TimedOut(place.seen())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that stands in line behind the seat.
struct InLine<'a> {
    waiting: &'a Waiting,
    keys: &'a LockKeys,
    number: Number,
}

impl InLine<'_> {
    fn seen(&self) -> Seen {
        self.waiting.lock().get(self.keys.lock()).map(|line| line.seen.clone()).unwrap_or_default()
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        // Taken out, and dropped when the map is free again.
        let _left = self.waiting.lock().get_mut(self.keys.lock()).and_then(|line| line.leave(self.number));
    }
}
