//! A manager that is used on several runtimes, of which the first does not run any more. In real time, by nature.

use std::time::Duration;

use lock_core::{LockError, LossReason};
use lock_support::{MemoryCluster, StalledRuntime, ends_in_time, on_one_thread, whatever_becomes_of_it};
use tokio::sync::oneshot;
use tokio::time::Instant;

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_loss_is_reported_in_time_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let locks = MemoryCluster::new(3).manager();
        let (guard, _stalled) = StalledRuntime::after(fate, locks.lock("r").ttl(SHORT).renew(false).acquire());
        let guard = guard.unwrap();
        on_one_thread().block_on(async {
            let ends = Instant::now() + guard.remaining();
            ends_in_time(guard.lost(), async { ends }).await;
            let LockError::Lost { reason, .. } = guard.check().unwrap_err() else { panic!("{guard:?}") };
            assert_eq!(reason, LossReason::Expired);
        });
    });
}

#[test]
fn work_ends_with_its_lease_whatever_the_first_runtime_does() {
    whatever_becomes_of_it(|fate| {
        let locks = MemoryCluster::new(3).manager();
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        on_one_thread().block_on(async {
            let (began, begins) = oneshot::channel();
            let work = locks.lock("r").ttl(SHORT).renew(false).run(async |lease| {
                began.send(Instant::now() + lease.remaining()).unwrap();
                std::future::pending::<()>().await;
            });
            let ended = async { assert!(matches!(work.await, Err(LockError::Lost { .. }))) };
            ends_in_time(ended, async { begins.await.unwrap() }).await;
        });
    });
}
