//! The instances of the service in one run: a lock manager for each request, over the same masters in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::limits::MAX_TTL;
use lock_core::observer::{LockEvent, LockObserver, VoteOutcome};
use lock_core::{ConnectError, LockManager, MemoryNode};

use super::LockOrder;
use super::clock::Clock;

/// Longer than nobody is granted a lock that was taken from its holder.
const EVICTION_GAP: Duration = Duration::from_millis(200);
/// How long a holder may take to be told.
const TOLD_WITHIN: Duration = Duration::from_millis(500);

/// The masters of one run.
#[derive(Clone)]
pub(super) struct Masters([MemoryNode; 3]);

impl Masters {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| MemoryNode::new()))
    }

    /// An instance of the service. One that is frozen notices nothing of the loss of its locks.
    pub(super) async fn instance(&self, frozen: bool) -> Result<Instance, ConnectError> {
        let seen = Arc::new(Seen::default());
        let builder = LockManager::builder().nodes(self.0.clone()).max_ttl(MAX_TTL);
        let builder = builder.observer(seen.clone()).observer(Arc::new(LockOrder));
        let builder = if frozen { builder.notices_nothing() } else { builder };
        let locks = builder.connect().await?;
        Ok(Instance { locks, seen, resources: BTreeSet::new() })
    }

    /// More time than any lock lives passes on the masters.
    pub(super) fn expire_all(&self) {
        self.advance(MAX_TTL + Duration::from_secs(1));
    }

    fn advance(&self, by: Duration) {
        self.0.iter().for_each(|node| node.advance_clock(by));
    }
}

/// One instance of the service, and what was seen of its locks.
pub(super) struct Instance {
    pub(super) locks: LockManager,
    seen: Arc<Seen>,
    /// All that it held.
    pub(super) resources: BTreeSet<String>,
}

impl Instance {
    /// Notes what is held at this step.
    pub(super) fn look(&mut self) {
        self.resources.extend(self.locks.held().iter().map(|lease| lease.resource().to_owned()));
    }

    pub(super) fn holds(&self) -> bool {
        !self.locks.held().is_empty()
    }

    /// Whether it held any lock so far.
    pub(super) fn took_a_lock(&self) -> bool {
        self.seen.held.load(Ordering::Acquire)
    }

    /// Whether it asks for a lock that another one holds.
    pub(super) fn waits_for_a_lock(&self) -> bool {
        self.seen.acquiring.load(Ordering::Acquire) > 0 && self.seen.refused.load(Ordering::Acquire)
    }

    /// Takes its locks from it, as an operator does. It is told at once, and the next one may have them. Returns whether it was told of all.
    pub(super) async fn lose_all(&self, masters: &Masters, clock: Clock) -> bool {
        let mut was_told = true;
        for lease in self.locks.held() {
            let (locks, resource) = (self.locks.clone(), lease.resource().to_owned());
            // It would wait for as long as nobody is granted the lock; the masters' clocks are advanced instead.
            let forced = tokio::spawn(async move { _ = locks.force_release(&resource).await });
            was_told &= clock.limit(TOLD_WITHIN, lease.lost()).await.is_some();
            masters.advance(EVICTION_GAP);
            forced.abort();
        }
        // The loss of one lock of a set ends the others, too, whose keys have not been touched then.
        masters.expire_all();
        was_told
    }
}

/// What a manager was seen to do.
#[derive(Default)]
struct Seen {
    acquiring: AtomicUsize,
    /// Whether a master said, since the last acquisition began, that another one holds the lock.
    refused: AtomicBool,
    held: AtomicBool,
}

impl LockObserver for Seen {
    fn observe(&self, event: &LockEvent<'_>) {
        match event {
            LockEvent::AcquireBegan { .. } => {
                self.refused.store(false, Ordering::Release);
                self.acquiring.fetch_add(1, Ordering::AcqRel);
            }
            LockEvent::AcquireEnded { .. } => _ = self.acquiring.fetch_sub(1, Ordering::AcqRel),
            LockEvent::HoldBegan { .. } => self.held.store(true, Ordering::Release),
            LockEvent::NodeVoted { outcome: VoteOutcome::Held, .. } => self.refused.store(true, Ordering::Release),
            _ => {}
        }
    }
}
