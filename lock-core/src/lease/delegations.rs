use std::sync::{Mutex, MutexGuard, PoisonError};

/// The delegations of a lease, as far as its end depends on them.
#[derive(Default)]
pub(crate) struct Delegations(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether there has been any.
    made: bool,
    /// One that is never finished counts to the end of the lease: when its time is over, the masters' clocks say, and exclusion must
    /// not depend on them.
    unfinished: usize,
}

impl Delegations {
    /// One is made, which is unfinished until it is [finished](Self::finish).
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.made = true;
        state.unfinished += 1;
    }

    /// The service that has one works under the lock no more, or never got it.
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
        self.state().unfinished > 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
