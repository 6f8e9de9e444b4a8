use crate::mutex::Mutex;

/// The delegations of a lease, or of those that share its grant, as far as their end depends on them.
#[derive(Default)]
pub(crate) struct Delegations(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether there has been any.
    made: bool,
    /// One that is never finished counts to the end of the lease: when its time is over, the masters' clocks say, and exclusion must
    /// not depend on them.
    unfinished: usize,
    /// Whether the lock is being downgraded: what was delegated then would be a lock to write.
    downgrading: bool,
}

impl Delegations {
    /// One is made, which is unfinished until it is [finished](Self::finish). Returns false if there cannot be any, because the lock is
    /// being downgraded.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.0.lock();
        if !state.downgrading {
            state.made = true;
            state.unfinished += 1;
        }
        !state.downgrading
    }

    /// The lock is being downgraded. Returns false if it cannot be, because another service may still write under it.
    pub(super) fn begin_downgrade(&self) -> bool {
        let mut state = self.0.lock();
        state.downgrading = state.unfinished == 0;
        state.downgrading
    }

    /// The lock is downgraded: it can be delegated to read.
    pub(super) fn end_downgrade(&self) {
        self.0.lock().downgrading = false;
    }

    /// The service that has one works under the lock no more, or never got it.
    pub(crate) fn finish(&self) {
        let mut state = self.0.lock();
        state.unfinished = state.unfinished.saturating_sub(1);
    }

    /// Whether there has been any. The next local holder would have the same owner id, so the lock
    /// would still count as held for the service that has a delegation.
    pub(super) fn made(&self) -> bool {
        self.0.lock().made
    }

    /// Whether another service may still work under the lock.
    pub(super) fn unfinished(&self) -> bool {
        self.0.lock().unfinished > 0
    }
}
