use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{LockEvent, LockObserver};

/// Tells the observers of a manager what happened.
#[derive(Default)]
pub(crate) struct Reporter {
    observers: Vec<Arc<dyn LockObserver>>,
    /// Whether spans and events leave out the names of resources.
    redact: bool,
    /// Whether an observer has panicked before.
    panicked: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(observers: Vec<Arc<dyn LockObserver>>, redact: bool) -> Self {
        #[cfg(feature = "metrics")]
        let observers = observers.into_iter().chain([super::metrics::observer()]).collect();
        Self { observers, redact, panicked: AtomicBool::new(false) }
    }

    /// Whether anybody is told.
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// What spans and events show of the name of a resource, or of its key: nothing if names are redacted.
    pub(crate) fn shown<'a>(&self, name: &'a str) -> Option<&'a str> {
        (!self.redact).then_some(name)
    }

    pub(crate) fn redacts(&self) -> bool {
        self.redact
    }

    /// Tells every observer. One that panics breaks nothing.
    pub(crate) fn report(&self, event: &LockEvent<'_>) {
        for observer in &self.observers {
            let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
            if told.is_err() && !self.panicked.swap(true, Ordering::Relaxed) {
                log_event!(error: "lock.observer_panicked",
                    "an observer panicked; locks are not affected, and further panics are not logged");
            }
        }
    }
}
