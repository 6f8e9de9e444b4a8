use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Credential, Proof, prove};
use crate::error::LossReason;
use crate::lease::Lease;
use crate::mutex::Mutex;

/// The shortest pause between two looks at a lock.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// The leases that a manager adopted and that have not ended, which it looks at again and again: where its other background work is, so that
/// they are carried on whatever becomes of the runtime that adopted them.
#[derive(Default)]
pub(crate) struct Adoptions {
    adopted: Mutex<Adopted>,
    /// Notified when there is one more.
    added: Notify,
}

#[derive(Default)]
struct Adopted {
    next: u64,
    /// In the order in which they were adopted.
    by_number: BTreeMap<u64, Arc<Adoption>>,
}

struct Adoption {
    lease: Lease,
    credential: Credential,
    not_after: Instant,
}

impl Adoptions {
    /// Looks at this lease, too, until it ends, which it does at `not_after` at the latest.
    pub(crate) fn add(&self, lease: Lease, credential: Credential, not_after: Instant) {
        let mut adopted = self.adopted.lock();
        let number = adopted.next;
        adopted.next += 1;
        adopted.by_number.insert(number, Arc::new(Adoption { lease, credential, not_after }));
        drop(adopted);
        self.added.notify_one();
    }

    /// Looks at all of them. Begun again on another runtime, it goes on with those that have not ended.
    pub(crate) async fn watch(self: Arc<Self>) {
        let (mut watched, mut next) = (FuturesUnordered::new(), 0);
        loop {
            for (number, adoption) in self.since(next) {
                next = number + 1;
                watched.push(async move {
                    adoption.watch_until_end().await;
                    number
                });
            }
            tokio::select! {
                biased;
                Some(number) = watched.next() => {
                    let ended = self.adopted.lock().by_number.remove(&number);
                    // When the list is free again: to drop a lease may call what adopts another one.
                    drop(ended);
                }
                () = self.added.notified() => {}
            }
        }
    }

    fn since(&self, number: u64) -> Vec<(u64, Arc<Adoption>)> {
        let adopted = self.adopted.lock();
        adopted.by_number.range(number..).map(|(number, adoption)| (*number, Arc::clone(adoption))).collect()
    }
}

impl Adoption {
    async fn watch_until_end(&self) {
        tokio::select! {
            biased;
            () = self.lease.ended() => {}
            () = self.watch() => {}
        }
    }

    /// Looks at the lock again and again, and ends the lease when its holder does not have it any more.
    async fn watch(&self) {
        let lease = &self.lease;
        while lease.is_valid() {
            sleep((lease.remaining() / 3).max(MIN_PAUSE)).await;
            // Not kept while it sleeps: a lease that was given up keeps no connection open.
            let Some(engine) = lease.engine() else { return };
            match prove(&engine, lease.keys(), &self.credential).await {
                Proof::Held { sent, remaining, .. } => {
                    let ttl = remaining.min(self.not_after.saturating_duration_since(sent));
                    // No further than a grant of that time.
                    _ = lease.extend(sent, ttl);
                }
                Proof::Refuted(_) => lease.end(LossReason::Gone),
                // What was proven last stands, and ends by itself unless a majority replies before.
                Proof::Unknown(_) => {}
            }
        }
    }
}
