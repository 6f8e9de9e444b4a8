use super::setting::TurnsSetting;
use super::state::to_u8;
use crate::queue::{Queue, QueueMutant, Waiter};

/// The owner of a stranger's key.
pub(super) const STRANGER: u8 = 7;
/// For how many ticks a key lives that nobody extends or releases.
pub(super) const TTL: u8 = 4;

/// A node: who holds the lock, and who waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TurnsNode {
    /// The key of the lock.
    pub key: Option<TurnsKey>,
    /// Its queue.
    pub queue: Queue,
    /// Whether the first half of the present reservation is over.
    pub half: bool,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnsKey {
    /// The process, or the stranger.
    pub owner: u8,
    /// For how many ticks it lives, if nobody extends or releases it any more.
    pub left: Option<u8>,
}

/// A request. They arrive in order on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnsRequest {
    /// Takes the lock, or enters the queue with this beginning of the wait.
    Acquire(Option<u8>),
    /// Deletes the key. With a beginning of the wait, the position in the queue is kept.
    Release(Option<u8>),
    /// Gives up the position in the queue.
    Leave,
}

/// A reply to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TurnsReply {
    Granted,
    Held { remaining: u8, stranger: bool, position: Option<TurnsPosition> },
}

/// A position in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TurnsPosition {
    pub(super) first: bool,
    pub(super) alone: bool,
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) id: u8,
    pub(super) polls: bool,
}

impl TurnsNode {
    pub(super) fn acquire(
        &mut self,
        sender: Sender,
        since: Option<u8>,
        setting: &TurnsSetting,
        wake: impl FnMut(u8, u8) -> bool,
        refused: &mut Option<u8>,
    ) -> TurnsReply {
        let waits = since.is_some();
        if self.key.is_none() {
            if self.queue.reservation().is_none() && self.queue.begins_with_another(since.map(|_| sender.id)) {
                self.enter(sender, since, setting, refused);
                self.offer(sender.id, wake, setting);
            }
            let reserved = self.queue.reservation();
            let takes = setting.mutant == Some(QueueMutant::TakesReserved) && !waits;
            if takes || reserved.is_none_or(|first| waits && first == sender.id) {
                if waits {
                    self.queue.acquired(sender.id, setting.mutant);
                    self.half = false;
                }
                self.key = Some(TurnsKey { owner: sender.id, left: None });
                return TurnsReply::Granted;
            }
        }
        self.enter(sender, since, setting, refused);
        let place = self.queue.place(sender.id).filter(|_| waits);
        let alone = self.queue.waiters.len() == 1;
        let stranger = self.key.is_some_and(|key| key.owner == STRANGER);
        let position = place.map(|ahead| TurnsPosition { first: ahead == 0, alone });
        TurnsReply::Held { remaining: self.remaining(), stranger, position }
    }

    /// A release, or a request to leave the queue.
    pub(super) fn release(
        &mut self,
        sender: Sender,
        request: TurnsRequest,
        setting: &TurnsSetting,
        wake: impl FnMut(u8, u8) -> bool,
        refused: &mut Option<u8>,
    ) {
        let keeps = match request {
            TurnsRequest::Release(since) => {
                self.key = self.key.filter(|key| key.owner != sender.id || key.left.is_some());
                since
            }
            _ => None,
        };
        if keeps.is_none() {
            self.queue.leave(sender.id);
        }
        self.enter(sender, keeps, setting, refused);
        if self.key.is_none() && self.queue.reservation().is_none() {
            self.offer(sender.id, wake, setting);
        }
    }

    fn enter(
        &mut self,
        Sender { id, polls }: Sender,
        since: Option<u8>,
        setting: &TurnsSetting,
        refused: &mut Option<u8>,
    ) {
        if let Some(since) = since {
            *refused = self.queue.enter(Waiter { since, id, polls }, setting.room, setting.mutant);
        }
    }

    fn offer(&mut self, caller: u8, wake: impl FnMut(u8, u8) -> bool, setting: &TurnsSetting) {
        self.half = false;
        self.queue.offer(caller, wake, setting.mutant);
    }

    /// For how many ticks the lock is held, or reserved.
    fn remaining(&self) -> u8 {
        match self.key {
            Some(key) => key.left.unwrap_or(TTL),
            None => 2 * (to_u8(self.queue.reserved.len()) - self.queue.passed) - u8::from(self.half),
        }
    }

    /// A tick passes.
    pub(super) fn tick(&mut self, setting: &TurnsSetting) {
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
