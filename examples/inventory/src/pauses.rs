//! The pause that no lock can forbid.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// The TTL of the locks whose holders pause. The `ttl` of their handlers says the same.
pub(crate) const TTL: Duration = Duration::from_millis(300);

/// One purchase in this many pauses.
const EVERY: usize = 10;

/// How much longer than the TTL a pause lasts, in turn.
///
/// The fence that is checked at the write only fails while the next holder is between its read and its write: from the
/// time it takes to get the lock (a few milliseconds) until that plus the payment. These lengths fall into it and
/// beyond it, so that both what this fence overlooks and what it refuses shows.
const BEYOND_TTL: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(16),
    Duration::from_millis(24),
    Duration::from_millis(40),
];

/// Stops one instance now and then, as a garbage collector, a suspended machine, an overcommitted
/// host or SIGSTOP would.
#[derive(Debug)]
pub(crate) struct Pauses {
    enabled: bool,
    purchases: AtomicUsize,
    /// Where in [`BEYOND_TTL`] to begin.
    phase: usize,
}

impl Pauses {
    /// No pauses at all.
    pub(crate) fn never() -> Self {
        Self { enabled: false, purchases: AtomicUsize::new(0), phase: 0 }
    }

    /// The pauses of instance number `instance`. Each pauses only a few times; beginning at different lengths, they
    /// cover all of them.
    pub(crate) fn of_instance(instance: usize) -> Self {
        Self { enabled: true, phase: instance * 2, ..Self::never() }
    }

    /// Blocks the calling thread for longer than [`TTL`] when it is this purchase's turn.
    ///
    /// The instance has one thread for everything, so nothing else of it runs meanwhile: neither
    /// the renewal of the lease, nor the timer that would tell the handler that the lease is over.
    /// That is why this is `std::thread::sleep`, which has no other business in async code.
    pub(crate) fn stop_the_world(&self) {
        if !self.enabled {
            return;
        }
        let purchase = self.purchases.fetch_add(1, Ordering::Relaxed);
        if purchase % EVERY == EVERY - 1 {
            let pause = self.phase + purchase / EVERY;
            thread::sleep(TTL + BEYOND_TTL[pause % BEYOND_TTL.len()]);
        }
    }
}
