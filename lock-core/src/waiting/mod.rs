//! Who may try next, and when.
//!
//! A contended caller takes a [`Place`] and asks it for its turn until it has the lock or its time is over. For now a turn
//! comes by a timer, with jitter, bounded by the time after which the holder's key ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::random::Random;
use crate::resource::Resource;

/// The pauses between two tries: from, doubling, to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));

/// The callers that wait, by resource.
pub(crate) struct Waiting {
    /// Only resources that someone waits for; each caller's place takes its entry away when the last one leaves.
    waiters: Mutex<HashMap<Resource, usize>>,
    max_waiters: usize,
    closing: CancellationToken,
    random: Arc<Random>,
}

/// So many wait for the resource already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull(pub(crate) usize);

/// What a turn brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Try again.
    Again,
    /// The caller's time is over.
    TimedOut,
    /// The manager was closed.
    Closed,
}

impl Waiting {
    pub(crate) fn new(max_waiters: usize, closing: CancellationToken, random: Arc<Random>) -> Self {
        Self { waiters: Mutex::default(), max_waiters, closing, random }
    }

    /// Takes a place among those who wait for a resource; it is given back when it is dropped.
    pub(crate) fn enter(&self, resource: &Resource) -> Result<Place<'_>, QueueFull> {
        let mut waiters = self.lock();
        let count = waiters.entry(resource.clone()).or_default();
        if *count >= self.max_waiters {
            return Err(QueueFull(*count));
        }
        *count += 1;
        Ok(Place { waiting: self, resource: resource.clone(), pause: PAUSE.0 })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Resource, usize>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller's place.
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    resource: Resource,
    pause: Duration,
}

impl Place<'_> {
    /// Waits for the next turn. `free_in` is when the holder's key ends, if that is known; `until` when the caller gives up.
    /// The last turn comes at that time, not before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn turn(&mut self, free_in: Option<Duration>, until: Instant) -> Turn {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Turn::TimedOut;
        }
        // A split vote is free at once; the jitter is what parts the contenders.
        let most = self.pause.min(free_in.map_or(PAUSE.1, |free_in| free_in.max(PAUSE.0)));
        let pause = self.waiting.random.jitter(most).min(left);
        self.pause = (self.pause * 2).min(PAUSE.1);
        tokio::select! {
            biased;
            () = self.waiting.closing.cancelled() => Turn::Closed,
            () = sleep(pause) => Turn::Again,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiters = self.waiting.lock();
        if let Some(count) = waiters.get_mut(&self.resource) {
            *count -= 1;
            if *count == 0 {
                waiters.remove(&self.resource);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiting {
        Waiting::new(2, CancellationToken::new(), Arc::new(Random::from_seed(1)))
    }

    fn resource() -> Resource {
        Resource::parse("r").unwrap()
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let waiting = waiting();
        let first = waiting.enter(&resource()).unwrap();
        let _second = waiting.enter(&resource()).unwrap();
        assert_eq!(waiting.enter(&resource()).err(), Some(QueueFull(2)));
        waiting.enter(&Resource::parse("other").unwrap()).unwrap();
        drop(first);
        waiting.enter(&resource()).unwrap();
        assert_eq!(waiting.lock().len(), 1, "nobody waits for the other one");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_come_until_the_time_is_over() {
        let waiting = waiting();
        let mut place = waiting.enter(&resource()).unwrap();
        let started = Instant::now();
        let until = started + Duration::from_secs(1);
        let mut turns = 0;
        while place.turn(Some(Duration::from_secs(9)), until).await == Turn::Again {
            turns += 1;
        }
        assert_eq!(started.elapsed(), Duration::from_secs(1), "the last try is at the very end");
        assert!((15..40).contains(&turns), "{turns}");
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_a_waiter() {
        let waiting = waiting();
        let mut place = waiting.enter(&resource()).unwrap();
        waiting.closing.cancel();
        assert_eq!(place.turn(None, Instant::now() + Duration::from_secs(1)).await, Turn::Closed);
    }
}
