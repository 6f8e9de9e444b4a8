use std::fmt;

use super::state::PROCESSES;
use crate::queue::QueueMutant;

/// The bounds of a model of the reservations, and what is promised within them.
#[derive(Clone, Debug)]
pub struct ReservationsSetting {
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<QueueMutant>,
    /// How many processes there are.
    pub processes: usize,
    /// How many of them, the last ones, wait to read.
    pub readers: usize,
    /// How many of them, the first ones, cannot be woken by any node.
    pub pollers: usize,
    /// How many times a process begins to wait, in all. Without a bound, as often as it likes.
    pub waits: Option<u8>,
    /// Whether only the first and the last waiter are woken, as some of those in between are not when many wait.
    pub sparse: bool,
    /// How many earlier requests of a process may be under way to a node when it begins an attempt.
    pub late_requests: usize,
    /// Whether processes may begin to wait for a free lock at once, so that votes are split.
    pub splits: bool,
    /// Whether processes may begin to wait at the same time.
    pub ties: bool,
    /// Whether processes make attempts without waiting.
    pub tries: bool,
    /// Whether waiters may give up.
    pub abandons: bool,
    /// Whether a stranger takes and releases the lock.
    pub stranger: bool,
    /// How many processes are killed.
    pub kills: u8,
    /// How many times a process that waits is frozen. It is thawed at any time, or never.
    pub freezes: u8,
    /// How many connections for wake-ups are cut. Each is restored at any time, or never.
    pub cuts: u8,
    /// How many wake-ups are lost.
    pub lost_wakeups: u8,
    /// How many requests to leave a queue are lost.
    pub lost_leaves: u8,
    /// For how many waiters a queue has room.
    pub room: usize,
    /// How many others may acquire the lock before a waiter that came earlier, once a majority has its position.
    pub max_passed: u8,
    /// For how many ticks, each of half a reservation, a free lock may stay free while such a waiter waits.
    pub max_idle: u8,
}

impl ReservationsSetting {
    /// This many processes, and no faults.
    #[must_use]
    pub const fn new(processes: usize) -> Self {
        assert!(processes <= PROCESSES, "too many processes");
        Self {
            mutant: None,
            processes,
            readers: 0,
            pollers: 0,
            waits: None,
            sparse: false,
            late_requests: 0,
            splits: false,
            ties: false,
            tries: false,
            abandons: false,
            stranger: false,
            kills: 0,
            freezes: 0,
            cuts: 0,
            lost_wakeups: 0,
            lost_leaves: 0,
            room: PROCESSES,
            max_passed: 0,
            max_idle: 0,
        }
    }

    /// Three processes, and no faults.
    pub const ORDERLY: Self = Self::new(3);
    /// Two processes that may begin at the same time, while the lock is free. Where votes are split, and nodes reserve the key for
    /// different waiters, only the timers help.
    pub const TIES: Self = Self { splits: true, ties: true, max_passed: 1, max_idle: 1, ..Self::new(2) };
    /// A process is killed.
    pub const KILLED: Self = Self { kills: 1, ..Self::new(3) };
    /// A process is frozen, which costs one reservation. It may go on at any time.
    pub const FROZEN: Self = Self { freezes: 1, max_passed: 1, max_idle: 2, ..Self::new(3) };
    /// The first of four processes is frozen, and the one behind it is not woken.
    pub const NOT_WOKEN: Self =
        Self { sparse: true, freezes: 1, waits: Some(4), max_passed: 1, max_idle: 5, ..Self::new(4) };
    /// A process loses a connection for wake-ups.
    pub const CUT: Self = Self { cuts: 1, max_passed: 1, max_idle: 1, ..Self::new(3) };
    /// Waiters give up, and a request to leave is lost.
    pub const LEAVING: Self = Self { abandons: true, lost_leaves: 1, waits: Some(3), ..Self::new(3) };
    /// A process cannot be woken.
    pub const POLLING: Self = Self { pollers: 1, max_idle: 1, ..Self::new(3) };
    /// A wake-up is lost.
    pub const LOST_WAKEUP: Self = Self { lost_wakeups: 1, waits: Some(3), max_idle: 1, ..Self::new(3) };
    /// A stranger takes the lock and releases it.
    pub const STRANGER: Self = Self { stranger: true, max_idle: 1, ..Self::new(3) };
    /// Callers that do not wait.
    pub const TRYING: Self = Self { tries: true, ..Self::new(3) };
    /// Two processes that read beside one that writes.
    pub const READERS: Self = Self { readers: 2, waits: Some(3), max_idle: 1, ..Self::new(3) };
    /// Any of them may give up.
    pub const WRITER_GIVES_UP: Self = Self { abandons: true, ..Self::READERS };
    /// A queue with room for one.
    pub const FULL: Self = Self { room: 1, max_passed: 1, max_idle: 3, ..Self::new(3) };

    /// The larger settings.
    #[must_use]
    pub fn long() -> Vec<Self> {
        vec![Self { waits: Some(4), ..Self::LOST_WAKEUP }, Self { waits: Some(4), ..Self::READERS }]
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: QueueMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// Whether a process waits to read.
    pub(super) fn reads(&self, index: usize) -> bool {
        index < self.processes && index + self.readers >= self.processes
    }

    /// Whether processes of one kind differ in nothing but their names.
    pub(super) fn is_symmetric(&self) -> bool {
        !self.ties && self.pollers == 0
    }
}

impl fmt::Display for ReservationsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reservations: {} processes wait ", self.processes)?;
        match self.waits {
            Some(waits) => write!(f, "{waits} times")?,
            None => f.write_str("any number of times")?,
        }
        let counted = [
            (self.readers, "to read"),
            (self.pollers, "that cannot be woken"),
            (self.late_requests, "late requests"),
            (self.kills.into(), "killed"),
            (self.freezes.into(), "frozen"),
            (self.cuts.into(), "connections cut"),
            (self.lost_wakeups.into(), "wake-ups lost"),
            (self.lost_leaves.into(), "requests to leave lost"),
        ];
        counted.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| write!(f, ", {count} {what}"))?;
        let present = [
            (self.sparse, "that are not all woken"),
            (self.splits, "split votes"),
            (self.ties, "ties"),
            (self.tries, "callers that do not wait"),
            (self.abandons, "waiters that give up"),
            (self.stranger, "a stranger"),
            (self.room < PROCESSES, "too little room"),
        ];
        present.iter().filter(|(present, _)| *present).try_for_each(|(_, what)| write!(f, ", {what}"))?;
        write!(f, "; passed {} times and free for {} ticks at most", self.max_passed, self.max_idle)
    }
}
