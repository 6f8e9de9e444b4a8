//! The pause that no lock can prevent.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use crate::shop::PaymentProvider;

/// The TTL of the locks whose holders pause. The `ttl` of their handlers has the same value.
const TTL: Duration = Duration::from_millis(300);

/// One purchase in this many pauses.
const INTERVAL: usize = 10;

/// By how much the pauses exceed the TTL, in turn.
///
/// The fence that is checked only in the write fails only if the paused holder writes between the
/// next holder's read and write. The read follows a few milliseconds after the TTL, when the next
/// holder has the lock, and the write follows after the payment. Some of these pauses end within
/// that window and some after it, so the table shows both what this fence misses and what it
/// refuses.
const BEYOND_TTL: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(16),
    Duration::from_millis(24),
    Duration::from_millis(40),
];

/// A payment provider during whose calls the instance sometimes stops, as it would for a garbage
/// collection, a suspended machine, an overcommitted host or SIGSTOP.
#[derive(Debug)]
pub(crate) struct PausingProvider {
    latency: Duration,
    purchases: AtomicUsize,
    /// Index in [`BEYOND_TTL`] of the first pause.
    phase: usize,
}

impl PausingProvider {
    /// The provider of instance number `instance`. Every instance pauses only a few times, so each
    /// starts with a different length, and together they cover all of them.
    pub(crate) fn new(latency: Duration, instance: usize) -> Self {
        Self { latency, purchases: AtomicUsize::new(0), phase: instance * 2 }
    }

    /// Blocks the calling thread for longer than [`TTL`] if it is this purchase's turn.
    ///
    /// `std::thread::sleep` has no place in async code, which is the point: the instance has a single
    /// thread, so everything in it stops. That includes the renewal of the lease and the timer that
    /// would report to the handler that the lease has expired.
    fn stop_the_world(&self) {
        let purchase = self.purchases.fetch_add(1, Ordering::Relaxed);
        if purchase % INTERVAL == INTERVAL - 1 {
            let pause = self.phase + purchase / INTERVAL;
            thread::sleep(TTL + BEYOND_TTL[pause % BEYOND_TTL.len()]);
        }
    }
}

impl PaymentProvider for PausingProvider {
    fn authorize(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let answered = Instant::now() + self.latency;
            self.stop_the_world();
            // The provider answers during the pause. The handler that wakes finds the answer and
            // goes on to its write without an await at which it could be cancelled.
            if Instant::now() < answered {
                sleep_until(answered).await;
            }
        })
    }
}
