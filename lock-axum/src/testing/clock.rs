//! Waiting, in real time and under a paused clock.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How long one look at requests that make no step takes.
const LOOK: Duration = Duration::from_millis(5);
/// After this many looks without a step nothing more is expected of a request for now: 100 ms.
const IDLE_LOOKS: u32 = 20;
/// The same under a paused clock, in which each look skips twice as much time as the one before: 4 s.
const IDLE_LOOKS_PAUSED: u32 = 12;

/// An end to waiting. As long as this thread did not run, because the machine was busy or suspended, or because something blocked it, counts as
/// two looks: what could do nothing in that time is not late.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    /// As of the last call of [`is_over`](Self::is_over).
    pub(super) left: Duration,
    last: Instant,
}

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Self { left: time, last: Instant::now() }
    }

    /// To be called at each look.
    pub(super) fn is_over(&mut self) -> bool {
        let gap = self.last.elapsed();
        self.last += gap;
        self.left = self.left.saturating_sub(gap.min(2 * LOOK));
        self.left.is_zero()
    }
}

/// Which clock the runtime has.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    paused: bool,
}

impl Clock {
    pub(super) async fn detect() -> Self {
        let before = tokio::time::Instant::now();
        // Time that is paused stands still while a thread is blocked.
        _ = spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await;
        Self { paused: before.elapsed() < Duration::from_millis(1) }
    }

    /// Passes the time until the next look. Under a paused clock, real time passes as well, for what is not on this runtime: a database, say.
    pub(super) async fn pass(self, looks: u32) {
        if self.paused {
            _ = spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await;
            sleep(Duration::from_millis(1 << looks.min(16))).await;
        } else {
            sleep(LOOK).await;
        }
    }

    /// Whether this many looks without a step are enough.
    pub(super) fn is_idle(self, looks: u32) -> bool {
        looks >= if self.paused { IDLE_LOOKS_PAUSED } else { IDLE_LOOKS }
    }

    /// The output of `work`, unless it takes longer than `time`.
    pub(super) async fn limit<T>(self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut looks, mut deadline) = (pin!(work), 0, Deadline::after(time));
        loop {
            tokio::select! {
                biased;
                output = &mut work => return Some(output),
                () = self.pass(looks) => looks += 1,
            }
            if deadline.is_over() {
                return None;
            }
        }
    }
}
