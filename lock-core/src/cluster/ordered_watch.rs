use std::sync::MutexGuard;

use tokio::sync::Notify;

use crate::mutex::Mutex;
use crate::task::wait_until;

/// A value whose changes can be awaited.
///
/// Waiters are woken in the order in which they began to wait. Tokio's `watch` wakes them in a random order, so a simulated run
/// would not be the same run each time.
pub(crate) struct OrderedWatch<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> OrderedWatch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn borrow(&self) -> MutexGuard<'_, T> {
        self.value.lock()
    }

    pub(crate) fn replace(&self, value: T) {
        *self.borrow() = value;
        self.changed.notify_waiters();
    }

    /// Lets all who wait look again at what their condition depends on beside the value.
    pub(crate) fn touch(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until the value satisfies a condition.
    pub(crate) async fn wait_for(&self, condition: impl Fn(&T) -> bool) {
        wait_until(&self.changed, || condition(&self.borrow())).await;
    }
}
