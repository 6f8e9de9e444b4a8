//! The queue of a lock on a node, and its reservations: the rules of [`lock_core::node::Operation`], with time in the hands of the
//! model.

use std::fmt;

use super::line::{Line, MAX_LINE};
use super::setting::QueueMutant;

/// A waiter in a queue. They are ordered as the fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    /// When it began to wait.
    pub since: u8,
    /// Whether it waits to read.
    pub reads: bool,
    /// Its id.
    pub id: u8,
    /// Whether it polls, because the node cannot wake it.
    pub polls: bool,
}

impl Waiter {
    /// In one byte, which has the same order.
    pub(crate) fn packed(self) -> u8 {
        self.since << 4 | u8::from(self.reads) << 3 | self.id << 1 | u8::from(self.polls)
    }

    pub(crate) fn from_packed(packed: u8) -> Self {
        Self { since: packed >> 4, reads: packed & 8 != 0, id: packed >> 1 & 3, polls: packed & 1 != 0 }
    }
}

/// The queue of a node.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Those that wait, each of them packed.
    pub waiters: Line,
    /// The ids of those for which the free key is reserved, one after another.
    pub reserved: Line,
    /// How many of the reservations have passed.
    pub passed: u8,
    /// Which of those waiters know of it and have not come late, one bit for each. They lose their position with it.
    pub expected: u8,
    /// The writers that were heard while readers hold the lock, by their ids.
    pub heard: u8,
}

impl Queue {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Waiter> + '_ {
        self.waiters.iter().map(Waiter::from_packed)
    }

    /// Whether nobody waits and nothing is reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.len() + self.reserved.len() == 0
    }

    pub(crate) fn place(&self, id: u8) -> Option<usize> {
        self.iter().position(|waiter| waiter.id == id)
    }

    pub(crate) fn has(&self, process: usize) -> bool {
        self.iter().any(|waiter| usize::from(waiter.id) == process)
    }

    /// For which waiter the key is reserved.
    pub(crate) fn reservation(&self) -> Option<u8> {
        self.reserved.get(self.passed.into())
    }

    /// Whether the key is kept for others than this caller, and not reserved for anyone.
    pub(crate) fn begins_with_another(&self, id: Option<u8>) -> bool {
        self.waiters.len() > 0 && self.iter().next().map(|first| first.id) != id
    }

    /// Enters the queue, which has room for `room`. Returns who was refused, the caller or a younger one.
    pub(crate) fn enter(&mut self, waiter: Waiter, room: usize, mutant: Option<QueueMutant>) -> Option<u8> {
        let heard = self.heard;
        self.remove(waiter.id);
        self.heard = heard;
        if mutant != Some(QueueMutant::LateAreRemoved) {
            self.came_late(waiter.id);
        }
        let at = self.iter().filter(|other| match mutant {
            Some(QueueMutant::TiesByArrival) => other.since <= waiter.since,
            _ => *other < waiter,
        });
        let at = at.count();
        if self.waiters.len() < room.min(MAX_LINE) {
            self.waiters.insert(at, waiter.packed());
            return None;
        }
        if mutant == Some(QueueMutant::FullDropsOldest) {
            let dropped = Waiter::from_packed(self.waiters.remove(0)).id;
            self.waiters.insert(at.saturating_sub(1), waiter.packed());
            return Some(dropped);
        }
        if at == self.waiters.len() {
            return Some(waiter.id);
        }
        let dropped = Waiter::from_packed(self.waiters.remove(self.waiters.len() - 1)).id;
        self.waiters.insert(at, waiter.packed());
        Some(dropped)
    }

    /// Gives up the position and the reservation.
    pub(crate) fn leave(&mut self, id: u8) {
        self.remove(id);
        if self.reservation() == Some(id) {
            self.end_reservations();
        }
    }

    /// A waiter takes the lock: it needs no position any longer, and those that let their reservation pass lose theirs.
    pub(crate) fn acquired(&mut self, id: u8, mutant: Option<QueueMutant>) {
        self.remove(id);
        self.remove_passed(mutant);
        if mutant != Some(QueueMutant::GrantKeepsReservations) {
            self.end_reservations();
        }
        if mutant == Some(QueueMutant::GrantEmptiesQueue) {
            self.waiters = Line::default();
        }
    }

    /// Reserves the key for the waiters, and wakes some of them: `wake` says whether a waiter hears how many are before it. Those
    /// that nobody listens for are removed. The caller need not be woken, nor does one that polls.
    pub(crate) fn offer(
        &mut self,
        caller: u8,
        is_woken: impl Fn(usize, bool) -> bool,
        mut wake: impl FnMut(u8, u8) -> bool,
        mutant: Option<QueueMutant>,
    ) {
        self.end_reservations();
        let mut before = 0;
        while let Some(Waiter { id, polls, .. }) = self.waiters.get(before.into()).map(Waiter::from_packed) {
            let polls = polls && mutant != Some(QueueMutant::PollersAreRemoved);
            let is_woken = is_woken(before.into(), usize::from(before) + 1 == self.waiters.len());
            let hears = !is_woken || polls || id == caller || wake(id, before);
            if hears || mutant == Some(QueueMutant::GoneAreKept) {
                self.reserved.push(id);
                self.expected |= u8::from(is_woken || polls) << before;
                before += 1;
            } else {
                self.waiters.remove(before.into());
            }
        }
    }

    /// The time of one reservation is over.
    pub(crate) fn pass(&mut self, mutant: Option<QueueMutant>) {
        if mutant == Some(QueueMutant::ReservationsDoNotPass) || self.reserved.len() == 0 {
            return;
        }
        self.passed += 1;
        if self.reservation().is_none() {
            self.remove_passed(mutant);
            self.end_reservations();
        }
    }

    /// How many reservations come before that of a waiter; or how many are left, if it has none.
    pub(crate) fn reservations_before(&self, id: Option<u8>) -> usize {
        let mut left = self.reserved.iter().skip(self.passed.into());
        let left_over = left.len();
        left.position(|other| Some(other) == id).unwrap_or(left_over)
    }

    /// A waiter that comes after its reservation is alive, and keeps its position.
    fn came_late(&mut self, id: u8) {
        let passed = self.reserved.iter().take(self.passed.into());
        if let Some(at) = passed.enumerate().find_map(|(at, other)| (other == id).then_some(at)) {
            self.expected &= !(1 << at);
        }
    }

    /// Removes those that knew of their reservation, let it pass, and did not come.
    fn remove_passed(&mut self, mutant: Option<QueueMutant>) {
        let (reserved, expected) = (self.reserved, self.expected);
        let passed = reserved.iter().take(self.passed.into()).enumerate();
        let all = mutant == Some(QueueMutant::UnwokenAreRemoved);
        passed.filter(|(at, _)| all || expected & 1 << at != 0).for_each(|(_, id)| self.remove(id));
    }

    pub(crate) fn end_reservations(&mut self) {
        (self.reserved, self.passed, self.expected) = (Line::default(), 0, 0);
    }

    /// A writer waits, and readers hold the lock.
    pub(crate) fn hear(&mut self, writer: u8) {
        self.heard |= 1 << writer;
    }

    /// Whether a writer that was heard waits before a reader that waits since then; or any at all.
    pub(crate) fn writer_waits(&self, before: Option<u8>) -> bool {
        let is_before = |waiter: &Waiter| before.is_none_or(|since| waiter.since <= since);
        self.iter().any(|waiter| !waiter.reads && self.heard & 1 << waiter.id != 0 && is_before(&waiter))
    }

    /// Whether it waits to write.
    pub(crate) fn has_writer(&self, id: u8) -> bool {
        self.iter().any(|waiter| waiter.id == id && !waiter.reads)
    }

    /// Readers hold the lock: wakes those at the head of the queue. Returns the writer behind them.
    pub(crate) fn wake_readers(&mut self, mut wake: impl FnMut(u8, u8) -> bool) -> Option<u8> {
        let readers: Vec<Waiter> = self.iter().take_while(|waiter| waiter.reads).collect();
        let behind = self.iter().nth(readers.len()).map(|writer| writer.id);
        for reader in readers {
            if !reader.polls && !wake(reader.id, 0) {
                self.remove(reader.id);
            }
        }
        behind
    }

    pub(crate) fn remove(&mut self, id: u8) {
        self.heard &= !(1 << id);
        if let Some(at) = self.place(id) {
            self.waiters.remove(at);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for Waiter { since, reads, id, polls } in self.iter() {
            write!(f, " {id}@{since}{}{}", if reads { "r" } else { "" }, if polls { "p" } else { "" })?;
        }
        f.write_str(" ]")?;
        if self.heard != 0 {
            write!(f, " heard {:b}", self.heard)?;
        }
        if self.reserved.len() > 0 {
            write!(f, " reserved for {:?}, {} passed, {:b} expected", self.reserved, self.passed, self.expected)?;
        }
        Ok(())
    }
}
