//! What shows whether locks can be acquired: probes of a service that lock what nobody else wants, one name after
//! another; and a thread that notices when the process itself stood still.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::MAX_TTL;
use super::history::{Event, Journal};
use super::service::Shared;
use super::worker::kind;
use lock_history::Moment;

/// The pause between two probes.
const PAUSE: Duration = Duration::from_millis(10);
/// How often the thread looks at the clock, and from which delay on the process stood still.
const TICK: Duration = Duration::from_millis(5);
const STALL: Duration = Duration::from_millis(20);

/// Acquires and releases locks until it is stopped.
pub(super) async fn probe(shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    for attempt in 0_u64.. {
        if *stopped.borrow() {
            return;
        }
        let resource = format!("probe-{}-{}-{attempt}", shared.service, std::process::id());
        let acquiring = shared.locks.lock(&resource).ttl(MAX_TTL).wait(Duration::ZERO).renew(false).acquire();
        shared.journal.write(match acquiring.await {
            // The guard is dropped at once, which releases the lock in the background.
            Ok(_) => Event::Probed,
            Err(error) => Event::ProbeFailed { kind: kind(&error).to_owned() },
        });
        sleep(PAUSE).await;
    }
}

/// Records, until the journal is gone, when this process stood still.
pub(super) fn watch_for_stalls(journal: &Arc<Journal>) {
    let journal: Weak<Journal> = Arc::downgrade(journal);
    thread::spawn(move || {
        let mut before = Moment::now();
        loop {
            thread::sleep(TICK);
            let Some(journal) = journal.upgrade() else { return };
            let now = Moment::now();
            if now.since(before) > TICK + STALL {
                journal.write(Event::Stalled { from: before });
            }
            before = now;
        }
    });
}
