//! `#[distributed_lock]` on functions and methods that are no handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_axum::{FencingToken, Lease, LockError, LockManager, LockRejection, distributed_lock};
use lock_support::Events;
use lock_support::http::{Counter, manager, nodes};
use tokio::time::sleep;

struct Shop {
    locks: LockManager,
    calls: Counter,
}

impl Shop {
    #[distributed_lock(manager = self.locks, key = format!("stock:{sku}"), wait = "0s", max_hold = "200ms")]
    async fn deduct(&self, sku: &str, pause: Duration) -> Result<FencingToken, LockRejection> {
        self.calls.add();
        sleep(pause).await;
        let again = self.locks.lock(format!("stock:{sku}")).try_acquire().await?;
        assert_eq!(
            again.token(),
            Lease::current().unwrap().token(),
            "a lock acquired again inside its own scope is the same lock"
        );
        Ok(again.token())
    }
}

/// Records whether the lock was held when it was dropped.
struct Transaction<'a>(&'a LockManager, Arc<AtomicBool>);

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.1.store(!self.0.held().is_empty(), Ordering::Relaxed);
    }
}

impl std::fmt::Display for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("transaction")
    }
}

impl Transaction<'_> {
    #[distributed_lock(resource = "r", manager = self.0)]
    async fn only_the_receiver(self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(resource = "r", manager = locks)]
async fn only_the_parameter(locks: &LockManager, _transaction: Transaction<'_>) -> Result<(), LockError> {
    sleep(Duration::from_millis(1)).await;
    Ok(())
}

#[distributed_lock(resource = "{transaction}", manager = locks)]
async fn only_the_template(locks: &LockManager, transaction: Transaction<'_>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = _name, manager = locks)]
async fn moved_into_the_key(
    locks: &LockManager,
    _name: String,
    _transaction: Transaction<'_>,
) -> Result<(), LockError> {
    Ok(())
}

struct Work<'a> {
    _transaction: Transaction<'a>,
    items: usize,
}

#[distributed_lock(resource = "r", manager = locks)]
async fn only_another_field(locks: &LockManager, work: Work<'_>) -> Result<usize, LockError> {
    Ok(work.items)
}

#[tokio::test]
async fn an_unused_parameter_is_dropped_under_the_lock() {
    let (locks, held) = (manager(&nodes()), Arc::new(AtomicBool::new(false)));
    let transaction = || Transaction(&locks, Arc::clone(&held));
    only_the_parameter(&locks, transaction()).await.unwrap();
    assert!(held.swap(false, Ordering::Relaxed));
    only_the_template(&locks, transaction()).await.unwrap();
    assert!(held.swap(false, Ordering::Relaxed));
    transaction().only_the_receiver().await.unwrap();
    assert!(held.swap(false, Ordering::Relaxed));
    moved_into_the_key(&locks, "r".into(), transaction()).await.unwrap();
    assert!(held.swap(false, Ordering::Relaxed));
    only_another_field(&locks, Work { _transaction: transaction(), items: 1 }).await.unwrap();
    assert!(held.swap(false, Ordering::Relaxed));
}

#[tokio::test]
async fn a_guarded_method_returns_its_own_error_type() {
    let nodes = nodes();
    let shop = Shop { locks: manager(&nodes), calls: Counter::default() };
    let first = shop.deduct("a", Duration::ZERO).await.unwrap();
    assert!(first < shop.deduct("a", Duration::ZERO).await.unwrap());

    let held = shop.locks.lock("stock:a").acquire().await.unwrap();
    let error = shop.deduct("a", Duration::ZERO).await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::Contended { .. })), "{error}");
    assert_eq!(shop.calls.get(), 2, "the body did not run");
    held.release().await.unwrap();

    let error = shop.deduct("a", Duration::from_secs(30)).await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::Lost { .. })), "{error}");
}

#[tokio::test]
async fn a_manager_that_is_made_for_one_call_is_reported() {
    fn of_this_call() -> LockManager {
        LockManager::in_memory()
    }
    #[distributed_lock(resource = "stock", manager = of_this_call())]
    async fn guards_nothing(events: &Events) -> Result<usize, LockError> {
        assert!(Lease::current().unwrap().is_valid());
        Ok(events.named("lock.manager_dropped").len())
    }
    #[distributed_lock(resource = "stock", manager = locks)]
    async fn guards(locks: &LockManager) -> Result<(), LockError> {
        Ok(())
    }
    let events = Events::record();
    assert_eq!(guards_nothing(&events).await.unwrap(), 1, "once, before the body runs");

    let locks = LockManager::in_memory();
    guards(&locks).await.unwrap();
    let guard = locks.lock("stock").acquire().await.unwrap();
    drop(locks.clone());
    locks.close();
    drop((locks, guard));
    assert_eq!(events.named("lock.manager_dropped").len(), 1, "neither a clone, nor a manager that was closed");
}
