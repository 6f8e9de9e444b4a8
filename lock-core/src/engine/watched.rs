use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A value whose changes can be awaited. It wakes in the order in which they came those who wait; tokio's `watch` draws lots,
/// and a simulated run would not be the same run each time.
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(super) fn borrow(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn replace(&self, value: T) -> T {
        let before = std::mem::replace(&mut *self.borrow(), value);
        self.changed.notify_waiters();
        before
    }

    /// Waits until the value is as wanted.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(&T) -> bool) {
        loop {
            let changed = self.changed.notified();
            if wanted(&self.borrow()) {
                return;
            }
            changed.await;
        }
    }
}
