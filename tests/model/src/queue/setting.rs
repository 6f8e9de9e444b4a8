use std::fmt;

use super::state::PROCESSES;

/// A mutant of the queue's rules: one rule is broken, and a property must be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMutant {
    /// A process takes wake-ups from a majority of nodes for the lock.
    WakeupsAsVotes,
    /// A release deletes the key of any attempt of its process.
    ReleaseByWaiterId,
    /// All attempts of a process use one owner id.
    SharedOwnerId,
    /// A waiter that nobody listens for is not removed when the key is offered.
    GoneAreKept,
    /// A reservation does not pass to the next waiter.
    ReservationsDoNotPass,
    /// All waiters are removed when one of them takes the lock.
    GrantEmptiesQueue,
    /// The reservations are not ended when one takes the lock.
    GrantKeepsReservations,
    /// Of waiters that began at the same time, the one that arrived first comes first.
    TiesByArrival,
    /// A waiter that polls is removed when the key is offered, because it does not hear.
    PollersAreRemoved,
    /// A full queue drops its oldest waiter, not its youngest.
    FullDropsOldest,
    /// A caller that does not wait takes a key that is reserved.
    TakesReserved,
    /// A process that reconnects begins to wait again.
    SinceIsLost,
    /// A process that is woken for a lock that it does not want keeps silent.
    LeaveIsNotSent,
    /// A waiter that was not woken for its reservation loses its position when it lets it pass.
    UnwokenAreRemoved,
    /// A waiter that comes after its reservation loses its position all the same.
    LateAreRemoved,
    /// A waiter is told how long all reservations last, not how long those before its own do.
    ToldTheEnd,
    /// Readers join others although a writer waits before them.
    ReadersPassWriters,
    /// A writer that gives up wakes no readers.
    LeavingWriterWakesNobody,
    /// When readers begin to hold the lock, the writer behind them is not noted.
    WriterBehindIsNotHeard,
}

/// The bounds of a model with a queue.
#[derive(Clone, Debug)]
pub struct QueueSetting {
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<QueueMutant>,
    /// How many attempts each process may make. A process without attempts is absent.
    pub attempts: [usize; PROCESSES],
    /// Whether keys expire only when their attempt has ended, as validity ensures. Otherwise they expire at any step.
    pub validity_holds: bool,
    /// Whether wake-ups are delivered.
    pub wakeups: bool,
    /// How many acquires and confirms of ended attempts are executed.
    pub late_requests: u8,
    /// How many positions in queues are lost.
    pub lost_positions: u8,
    /// The largest fence that is explored.
    pub max_fence: u8,
}

impl QueueSetting {
    /// Processes with these numbers of attempts.
    #[must_use]
    pub const fn new(attempts: [usize; PROCESSES]) -> Self {
        Self {
            mutant: None,
            attempts,
            validity_holds: true,
            wakeups: false,
            late_requests: 0,
            lost_positions: 0,
            max_fence: 2,
        }
    }

    /// The larger settings: lost positions, late requests, keys that expire at any step, and three processes.
    #[must_use]
    pub fn long() -> Vec<Self> {
        let losing = Self { late_requests: 1, lost_positions: 1, ..Self::new([1, 1, 0]) };
        let any_step = Self { validity_holds: false, ..losing.clone() };
        let again = Self { lost_positions: 1, ..Self::new([2, 1, 0]) };
        vec![losing, any_step, again, Self::new([1, 2, 0]), Self { max_fence: 1, ..Self::new([1, 1, 1]) }]
    }

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: QueueMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }
}

impl fmt::Display for QueueSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, validity_holds, wakeups, late_requests, lost_positions, max_fence, .. } = self;
        write!(
            f,
            "queue: processes with {attempts:?} attempts, {late_requests} late requests, {lost_positions} lost positions, \
             fences to {max_fence}, "
        )?;
        f.write_str(if *validity_holds { "keys expire after their attempt" } else { "keys expire at any step" })?;
        f.write_str(if *wakeups { ", wake-ups delivered" } else { "" })
    }
}
