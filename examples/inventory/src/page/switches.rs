use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What the buttons set, and the instances read at each purchase.
#[derive(Debug)]
pub(crate) struct Switches {
    lock: AtomicBool,
    fence: AtomicBool,
    pause: Mutex<Option<Pause>>,
}

/// What keeps one purchase between its read and its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The whole instance stops, and the renewal of the lease with it.
    Freeze,
    /// The payment is slow. The lease is renewed meanwhile.
    SlowPayment,
}

/// What keeps purchases apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    Nothing,
    Lock,
    LockAndFence,
}

impl Pause {
    /// Longer than twice the TTL of the page's handlers.
    pub(crate) const TIME: Duration = Duration::from_millis(2_200);
}

impl Switches {
    pub(crate) fn new() -> Self {
        Self { lock: AtomicBool::new(true), fence: AtomicBool::new(true), pause: Mutex::new(None) }
    }

    pub(crate) fn lock(&self) -> bool {
        self.lock.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lock(&self, on: bool) {
        self.lock.store(on, Ordering::Relaxed);
    }

    pub(crate) fn fence(&self) -> bool {
        self.fence.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fence(&self, on: bool) {
        self.fence.store(on, Ordering::Relaxed);
    }

    /// Without a lock there is no token that a fence could check.
    pub(crate) fn protection(&self) -> Protection {
        match (self.lock(), self.fence()) {
            (false, _) => Protection::Nothing,
            (true, false) => Protection::Lock,
            (true, true) => Protection::LockAndFence,
        }
    }

    /// The next purchase that pays does so with this pause.
    pub(crate) fn pause_next(&self, pause: Pause) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = Some(pause);
    }

    pub(crate) fn take_pause(&self) -> Option<Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
