use std::time::Duration;

use http::StatusCode;
use lock_core::{LockManager, LockRequest};

/// What happens to a handler when its lease is lost while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Its future is dropped where it stands; the client gets 500 `lock-lost`.
    #[default]
    Cancel,
    /// It runs on, for handlers that must not be cut in two and whose resource checks the token. An answer with a status of
    /// success (2xx) is still replaced by 500 `lock-lost`.
    Continue,
}

/// What happens to a handler when the client hangs up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It runs to its end, holding the lock, on a task of its own; shutdown waits for it. The tracing span, the lease and a
    /// panic are carried across; other task-locals that outer middleware set are not.
    #[default]
    Finish,
    /// Its future is dropped where it stands, and the lock is released.
    Cancel,
}

/// How a handler is guarded: what macro and layer have in common. `None` leaves a choice to the manager.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// How long the key lives unless it is renewed.
    pub ttl: Option<Duration>,
    /// How long to wait for the lock.
    pub wait: Option<Duration>,
    /// How long the lock may be held in all.
    pub max_hold: Option<Duration>,
    /// Whether the lock is renewed.
    pub renew: Option<bool>,
    /// What becomes of the handler when the lease is lost.
    pub on_lost: OnLost,
    /// What becomes of the handler when the client hangs up.
    pub on_disconnect: OnDisconnect,
    /// The status of the answer when the lock is busy.
    pub busy_status: u16,
}

impl Policy {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ttl: None,
            wait: None,
            max_hold: None,
            renew: None,
            on_lost: OnLost::Cancel,
            on_disconnect: OnDisconnect::Finish,
            busy_status: StatusCode::CONFLICT.as_u16(),
        }
    }

    /// The lock on a resource, by this policy.
    pub(crate) fn request(&self, locks: &LockManager, resource: &str) -> LockRequest {
        let mut request = locks.lock(resource);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(renew) = self.renew {
            request = request.renew(renew);
        }
        request
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}
