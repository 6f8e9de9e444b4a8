use std::ops::{Deref, Range};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Lease, LockError, LockManager};
use tokio::time::{Instant, sleep};

/// How long a holder holds a lock that it hands over.
const HOLD: Duration = Duration::from_millis(1);
/// For how long a successor holds the lock: longer than the nodes' word is good that its predecessor had.
const SUCCESSION: Duration = Duration::from_millis(400);

/// Takes a lock from its present holder, and holds it. Returns since when and until when.
pub async fn succeed<G: Deref<Target = Lease>>(
    locks: &LockManager,
    name: &str,
    acquire: impl AsyncFn() -> G,
) -> Range<Instant> {
    // Contended: it was another one that the lock was to be taken from.
    while let Err(error) = locks.force_release(name).await {
        assert!(matches!(error, LockError::Contended { .. }), "{error}");
    }
    let guard = acquire().await;
    let since = Instant::now() - guard.age();
    sleep(SUCCESSION).await;
    assert!(guard.is_valid());
    since..Instant::now()
}

/// 50 callers of one process want a lock, hold it for a moment, and hand it over, while a [successor](succeed) takes it from one of them.
/// Returns how many of them got it while the successor had it.
pub async fn got_it_beside<G: Deref<Target = Lease>>(
    acquire: impl AsyncFn() -> G,
    successor: impl Future<Output = Range<Instant>>,
) -> usize {
    let holders = (0..50).map(|_| async {
        let guard = acquire().await;
        let granted = Instant::now() - guard.age();
        sleep(HOLD).await;
        drop(guard);
        granted
    });
    let (granted, held) = tokio::join!(join_all(holders), successor);
    granted.iter().filter(|granted| held.contains(granted)).count()
}

/// Readers that would join an evicted one beside a writer who succeeded it: one after another, while that one holds the lock. Returns how many did.
pub async fn joined_beside(readers: &LockManager, successor: &LockManager, name: &str) -> usize {
    let reading = readers.read(name).acquire().await.unwrap();
    successor.force_release(name).await.unwrap();
    let writing = successor.lock(name).acquire().await.unwrap();
    let (began, mut joined) = (Instant::now(), 0);
    while began.elapsed() < SUCCESSION {
        joined += usize::from(readers.read(name).try_acquire().await.is_ok());
        sleep(HOLD).await;
    }
    assert!(writing.is_valid());
    drop((reading, writing));
    joined
}

/// Two managers, one of which takes a lock from the other again and again: one that is read, one that is handed over, and a permit.
/// Nobody in the process of the former holder gets it beside the successor.
pub async fn try_succession([ours, theirs]: [LockManager; 2]) {
    for round in 0..5 {
        let (read, write, permit) = (format!("read {round}"), format!("write {round}"), format!("permit {round}"));
        assert_eq!(joined_beside(&ours, &theirs, &read).await, 0, "readers");
        let successor = succeed(&theirs, &write, async || theirs.lock(&write).acquire().await.unwrap());
        let beside = got_it_beside(async || ours.lock(&write).acquire().await.unwrap(), successor).await;
        assert_eq!(beside, 0, "by handover");
        let slot = format!("{permit}{{0}}");
        let successor = succeed(&theirs, &slot, async || theirs.permits(&permit, 1).acquire().await.unwrap());
        let beside = got_it_beside(async || ours.permits(&permit, 1).acquire().await.unwrap(), successor).await;
        assert_eq!(beside, 0, "permits by handover");
    }
}
