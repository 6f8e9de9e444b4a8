//! A service in several instances, which take one lock again and again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockManager, LockManagerBuilder};
use lock_history::Referee;
use lock_support::eventually;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The `max_ttl` of services, unless a test says otherwise.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(1);
const INSTANCES: usize = 2;

/// The service, which checks that it never holds the lock twice, and that tokens grow.
pub(crate) struct Service {
    shared: Arc<Shared>,
    instances: Vec<Instance>,
}

#[derive(Default)]
struct Shared {
    referee: Referee,
    entries: AtomicUsize,
    pauses: Mutex<Pauses>,
}

/// When the service last held the lock, and the longest time in between.
#[derive(Default)]
struct Pauses {
    last: Option<Instant>,
    longest: Duration,
}

struct Instance {
    locks: LockManager,
    working: JoinHandle<()>,
}

/// The settings of the service, for these masters.
pub(crate) fn settings(urls: &[String]) -> LockManagerBuilder {
    LockManager::builder().redis(urls).max_ttl(MAX_TTL).node_timeout(MAX_TTL / 4)
}

impl Service {
    /// Starts the instances with these settings.
    pub(crate) fn start(settings: impl Fn() -> LockManagerBuilder) -> Self {
        let mut service = Self { shared: Arc::default(), instances: Vec::new() };
        service.start_again(settings);
        service
    }

    /// Starts the instances with these settings, after a halt.
    pub(crate) fn start_again(&mut self, settings: impl Fn() -> LockManagerBuilder) {
        (0..INSTANCES).for_each(|_| self.start_instance(settings()));
    }

    fn start_instance(&mut self, settings: LockManagerBuilder) {
        let locks = settings.connect_lazy().unwrap();
        let working = tokio::spawn(work(Arc::clone(&self.shared), locks.clone()));
        self.instances.push(Instance { locks, working });
    }

    /// Deploys the service with other settings: each instance is stopped when the one that replaces it has been started.
    pub(crate) async fn deploy(&mut self, settings: impl Fn() -> LockManagerBuilder) {
        for _ in 0..INSTANCES {
            self.start_instance(settings());
            self.goes_on().await;
            self.instances.remove(0).stop().await;
        }
        self.goes_on().await;
    }

    /// Waits until the service has held the lock some more times.
    pub(crate) async fn goes_on(&self) {
        let entries = self.shared.entries.load(Ordering::Relaxed);
        eventually("the service holds locks", || self.shared.entries.load(Ordering::Relaxed) > entries + 10).await;
    }

    /// The longest time for which nobody held the lock.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.shared.pauses.lock().unwrap().longest
    }

    /// Sees that it still works, stops all instances, and checks what they held.
    pub(crate) async fn stop(mut self) {
        self.goes_on().await;
        self.halt().await;
    }

    /// Stops all instances, and checks what they held so far.
    pub(crate) async fn halt(&mut self) {
        for instance in self.instances.drain(..) {
            instance.stop().await;
        }
        self.shared.referee.assert_no_violations();
    }
}

impl Instance {
    async fn stop(self) {
        self.locks.shutdown(Duration::from_secs(1)).await;
        self.working.await.unwrap();
    }
}

async fn work(shared: Arc<Shared>, locks: LockManager) {
    loop {
        match locks.lock("stock:42").acquire().await {
            Ok(guard) if shared.referee.enter(&guard) => {
                shared.entries.fetch_add(1, Ordering::Relaxed);
                shared.pauses.lock().unwrap().held();
                tokio::time::sleep(Duration::from_millis(2)).await;
                shared.referee.leave(&guard);
                // Not delivered where masters are away: the key expires.
                _ = guard.release().await;
            }
            Ok(_) => {}
            Err(lock_core::LockError::ShuttingDown { .. }) => return,
            // The masters are away, or in quarantine.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Pauses {
    fn held(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(self.last.map_or(Duration::ZERO, |last| now - last));
        self.last = Some(now);
    }
}
