use super::setting::ReservationsSetting;
use super::state::to_u8;
use crate::queue::{Queue, QueueMutant, Waiter};

/// The owner of a stranger's key.
pub(super) const STRANGER: u8 = 7;
/// The owner of the key while readers hold the lock.
pub(super) const SHARED: u8 = 6;
/// For how many ticks a key lives that nobody extends or releases.
pub(super) const TTL: u8 = 4;

/// A node: who holds the lock, and who waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationsNode {
    /// The key of the lock.
    pub key: Option<ReservationsKey>,
    /// Those that read, one bit for each.
    pub readers: u8,
    /// Its queue.
    pub queue: Queue,
    /// Whether the first half of the present reservation is over.
    pub half: bool,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservationsKey {
    /// The process, or the stranger.
    pub owner: u8,
    /// For how many ticks it lives, if nobody extends or releases it any more.
    pub left: Option<u8>,
}

/// A request. They arrive in order on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationsRequest {
    /// Takes the lock, or enters the queue with this beginning of the wait.
    Acquire(Option<u8>),
    /// Deletes the key. With a beginning of the wait, the position in the queue is kept.
    Release(Option<u8>),
    /// Gives up the position in the queue.
    Leave,
}

/// A reply to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReservationsReply {
    Granted,
    Held { remaining: u8, stranger: bool, position: Option<ReservationsPosition> },
}

/// A position in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReservationsPosition {
    pub(super) first: bool,
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) id: u8,
    pub(super) polls: bool,
    pub(super) reads: bool,
}

impl ReservationsNode {
    pub(super) fn acquire(
        &mut self,
        sender: Sender,
        since: Option<u8>,
        setting: &ReservationsSetting,
        mut wake: impl FnMut(u8, u8) -> bool,
        refused: &mut Option<u8>,
    ) -> ReservationsReply {
        let waits = since.is_some();
        let is_strange = self.key.is_some_and(|key| key.owner == STRANGER);
        if is_strange {
            self.queue.end_reservations();
            self.half = false;
        }
        if self.is_shared() && sender.reads {
            let is_barred = self.queue.writer_waits(since) && setting.mutant != Some(QueueMutant::ReadersPassWriters);
            if !is_barred {
                if waits {
                    self.queue.acquired(sender.id, setting.mutant);
                    self.half = false;
                }
                self.readers |= 1 << sender.id;
                return ReservationsReply::Granted;
            }
        }
        if self.key.is_none() {
            if self.queue.reservation().is_none() && self.queue.begins_with_another(since.map(|_| sender.id)) {
                self.enter(sender, since, setting, refused);
                self.offer(sender.id, &mut wake, setting);
            }
            let reserved = self.queue.reservation();
            let takes = setting.mutant == Some(QueueMutant::TakesReserved) && !waits;
            if takes || reserved.is_none_or(|first| waits && first == sender.id) {
                if waits {
                    self.queue.acquired(sender.id, setting.mutant);
                    self.half = false;
                }
                let owner = if sender.reads { SHARED } else { sender.id };
                self.key = Some(ReservationsKey { owner, left: None });
                if sender.reads {
                    self.readers = 1 << sender.id;
                    self.let_readers_in(wake, setting.mutant == Some(QueueMutant::WriterBehindIsNotHeard));
                }
                return ReservationsReply::Granted;
            }
        }
        self.enter(sender, since, setting, refused);
        let place = self.queue.place(sender.id).filter(|_| waits);
        if place.is_some() && self.is_shared() && !sender.reads {
            self.queue.hear(sender.id);
        }
        let position = place.map(|ahead| ReservationsPosition { first: ahead == 0 });
        let waiter = since.filter(|_| setting.mutant != Some(QueueMutant::ToldTheEnd)).map(|_| sender.id);
        ReservationsReply::Held { remaining: self.remaining(waiter), stranger: is_strange, position }
    }

    /// A release, or a request to leave the queue.
    pub(super) fn release(
        &mut self,
        sender: Sender,
        request: ReservationsRequest,
        setting: &ReservationsSetting,
        mut wake: impl FnMut(u8, u8) -> bool,
        refused: &mut Option<u8>,
    ) {
        let keeps = match request {
            ReservationsRequest::Release(since) => {
                self.key = self.key.filter(|key| key.owner != sender.id || key.left.is_some());
                self.readers &= !(1 << sender.id);
                self.key = self.key.filter(|key| key.owner != SHARED || self.readers != 0);
                since
            }
            _ => None,
        };
        if keeps.is_none() {
            let makes_way = self.is_shared() && self.queue.has_writer(sender.id);
            self.queue.leave(sender.id);
            if makes_way && setting.mutant != Some(QueueMutant::LeavingWriterWakesNobody) {
                self.let_readers_in(&mut wake, setting.mutant == Some(QueueMutant::WriterBehindIsNotHeard));
            }
        }
        self.enter(sender, keeps, setting, refused);
        if self.key.is_none() && self.queue.reservation().is_none() {
            self.offer(sender.id, wake, setting);
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.key.is_some_and(|key| key.owner == SHARED)
    }

    /// Readers hold the lock: those at the head of the queue join them, and the writer behind them bars later ones.
    fn let_readers_in(&mut self, wake: impl FnMut(u8, u8) -> bool, is_not_heard: bool) {
        if let Some(writer) = self.queue.wake_readers(wake).filter(|_| !is_not_heard) {
            self.queue.hear(writer);
        }
    }

    fn enter(
        &mut self,
        Sender { id, polls, reads }: Sender,
        since: Option<u8>,
        setting: &ReservationsSetting,
        refused: &mut Option<u8>,
    ) {
        if let Some(since) = since {
            *refused = self.queue.enter(Waiter { since, reads, id, polls }, setting.room, setting.mutant);
        }
    }

    fn offer(&mut self, caller: u8, wake: impl FnMut(u8, u8) -> bool, setting: &ReservationsSetting) {
        self.half = false;
        let is_woken = |before, is_last| before == 0 || is_last || !setting.sparse;
        self.queue.offer(caller, is_woken, wake, setting.mutant);
    }

    /// For how many ticks the lock is held, or reserved for others before this waiter.
    fn remaining(&self, waiter: Option<u8>) -> u8 {
        match self.key {
            Some(key) => key.left.unwrap_or(TTL),
            None => 2 * to_u8(self.queue.reservations_before(waiter)) - u8::from(self.half),
        }
    }

    /// A tick passes.
    pub(super) fn tick(&mut self, setting: &ReservationsSetting) {
        self.key = self.key.filter(|key| key.left != Some(1));
        if let Some(left) = self.key.as_mut().and_then(|key| key.left.as_mut()) {
            *left -= 1;
        }
        if self.queue.reservation().is_some() {
            self.half = !self.half;
            if !self.half {
                self.queue.pass(setting.mutant);
            }
        }
    }
}
