//! Callers that lock all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager};
use tokio::task::JoinSet;

/// Callers that lock, hold for a moment, and release, until they are told to stop.
pub struct Load {
    is_over: Arc<AtomicBool>,
    callers: JoinSet<Done>,
}

/// What the callers of a load got.
#[derive(Debug, Default)]
pub struct Done {
    /// How many locks.
    pub granted: usize,
    /// The errors of the others.
    pub failed: Vec<LockError>,
}

impl Load {
    /// Starts this many callers. Two of them share a lock, and wait for each other.
    pub fn start(locks: &LockManager, callers: usize) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let caller = |n: usize| {
            let (locks, is_over) = (locks.clone(), Arc::clone(&is_over));
            async move {
                let (resource, mut done) = (format!("load:{}", n / 2), Done::default());
                while !is_over.load(Ordering::Relaxed) {
                    match locks.lock(&resource).acquire().await {
                        Ok(guard) => {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            drop(guard);
                            done.granted += 1;
                        }
                        Err(error) => done.failed.push(error),
                    }
                }
                done
            }
        };
        Self { callers: (0..callers).map(caller).collect(), is_over }
    }

    /// Stops the callers. Says what they got.
    pub async fn stop(self) -> Done {
        self.is_over.store(true, Ordering::Relaxed);
        let done = self.callers.join_all().await.into_iter();
        done.fold(Done::default(), |mut all, done| {
            all.granted += done.granted;
            all.failed.extend(done.failed);
            all
        })
    }
}
