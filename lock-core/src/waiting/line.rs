//! The callers of one manager that want one resource.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Seat;
use crate::engine::{NodeSet, Tenure};
use crate::error::NodeVote;
use crate::options::LockOptions;
use crate::quorum::validity;

/// Those who stand behind the one that has the seat, and what it knows.
#[derive(Default)]
pub(super) struct Line {
    /// By number. Bounded by `max_waiters`.
    standing: BTreeMap<Number, Waiter>,
    /// Whether the one that has the seat waits, too.
    pub(super) first_waits: bool,
    pub(super) seen: Seen,
}

/// A waiter's number, which no other one ever has: it may leave when its line has ended, and another one stands there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u64);

impl Number {
    /// Higher than all before. The order among those that come at once is as they lock the lines.
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

struct Waiter {
    wants: Wants,
    pass: oneshot::Sender<Pass>,
}

/// What a caller needs, to be handed a lock that another took.
#[derive(Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) renew: bool,
}

impl Wants {
    /// Whether a lock that another took can be used as it is: it has the time to live that was asked for, and enough of it left.
    /// One that is not renewed wants all of it.
    pub(crate) fn fit(&self, tenure: &Tenure) -> bool {
        let ttl = tenure.claim.traces.ttl;
        let left = validity(ttl, tenure.sent.elapsed());
        self.renew && self.ttl == ttl && left.is_some_and(|left| left >= self.min_validity)
    }
}

impl From<&LockOptions> for Wants {
    fn from(options: &LockOptions) -> Self {
        Self { ttl: options.ttl, min_validity: options.min_validity, renew: options.renew }
    }
}

/// What the last attempt of a line told.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// The votes, if it failed.
    pub(crate) votes: Arc<[NodeVote]>,
    /// The nodes that hold the lock for this process, if it succeeded.
    pub(crate) ours: NodeSet,
    /// When the holder's key ends, if nobody renews it.
    pub(crate) free_at: Option<Instant>,
}

/// What the one that leaves the seat gives to the next.
pub(super) enum Pass {
    Seat(Seat),
    /// In this order: where nobody takes it, the lock is released before the seat is passed on.
    Lock(Tenure, Seat),
    NoQuorum(Arc<[NodeVote]>),
}

impl Line {
    /// Takes a place at the end, or tells how many wait already.
    pub(super) fn enter(&mut self, wants: Wants, pass: oneshot::Sender<Pass>, most: usize) -> Result<Number, usize> {
        let waiting = self.standing.len() + usize::from(self.first_waits);
        if waiting >= most {
            return Err(waiting);
        }
        let number = Number::next();
        self.standing.insert(number, Waiter { wants, pass });
        Ok(number)
    }

    /// Gives up a place. What is returned is to be dropped when the line is not locked.
    pub(super) fn leave(&mut self, number: Number) -> Option<impl Sized + use<>> {
        self.standing.remove(&number)
    }

    /// How many stand behind the seat.
    pub(super) fn len(&self) -> usize {
        self.standing.len()
    }

    /// Takes the next one out of the line, if it is as wanted. Those in front of it that are gone leave the line, too.
    pub(super) fn next_if(&mut self, wanted: impl Fn(&Wants) -> bool) -> Option<oneshot::Sender<Pass>> {
        loop {
            let first = self.standing.first_entry()?;
            if first.get().pass.is_closed() {
                first.remove();
            } else {
                return wanted(&first.get().wants).then(|| first.remove().pass);
            }
        }
    }

    /// Takes everyone out of the line who is as wanted.
    pub(super) fn all_if(&mut self, wanted: impl Fn(&Wants) -> bool) -> Vec<oneshot::Sender<Pass>> {
        let standing = std::mem::take(&mut self.standing).into_iter();
        let (taken, left): (BTreeMap<_, _>, _) = standing.partition(|(_, waiter)| wanted(&waiter.wants));
        self.standing = left;
        taken.into_values().map(|waiter| waiter.pass).collect()
    }
}
