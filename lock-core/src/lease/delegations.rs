use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The delegations of a lease, as far as its end depends on them.
#[derive(Default)]
pub(crate) struct Delegations(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether there has been any.
    made: bool,
    unfinished: usize,
    /// When the last of them ends by itself.
    end: Option<Instant>,
}

impl Delegations {
    /// One is made that ends at this time, unless it is [finished](Self::finish) before.
    pub(crate) fn begin(&self, end: Instant) {
        let mut state = self.state();
        state.made = true;
        state.unfinished += 1;
        state.end = state.end.max(Some(end));
    }

    /// The service that has one answered: it works under the lock no more.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.unfinished = state.unfinished.saturating_sub(1);
    }

    /// Whether there has been any. The next local holder would have the same owner id, so that each of them would prove that the
    /// lock is still held for whoever has it.
    pub(super) fn made(&self) -> bool {
        self.state().made
    }

    /// Whether another service may still work under the lock.
    pub(super) fn unfinished(&self) -> bool {
        let state = self.state();
        state.unfinished > 0 && state.end.is_some_and(|end| Instant::now() < end)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
