use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use lock_core::{Kind, LockManager, LockRequest, SetRequest};

/// What happens to a handler whose lease is lost while it runs, and to the session into which it took a
/// [`Hold`](crate::Hold).
///
/// A lease is lost when it could not be renewed in time, when too many masters have lost its key, when it reaches `max_hold`,
/// or when the grace period of a shutdown ends. Writes that the handler completed before the loss remain; let the resource
/// check the fencing token.
///
/// # Examples
///
/// ```
/// use lock_axum::{LockLayer, LockManager, OnLost};
///
/// // The handler must not be interrupted, and the database rejects stale tokens.
/// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").on_lost(OnLost::Continue);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// The handler's future is dropped at the `.await` where it is suspended, and the client gets 500 `lock-lost`.
    #[default]
    Cancel,
    /// The handler runs to its end. A response with a status below 400 is still replaced by 500 `lock-lost`: after a POST, a
    /// redirect reports a success as well. A session that has begun goes on, too. For handlers that must not be interrupted
    /// halfway and whose resource checks the fencing token.
    Continue,
}

/// What happens to a handler whose client disconnects. A session that follows its answer ends by itself: it reads from the
/// socket.
///
/// A handler inside the scope of another lock is part of it, and never outlives it: if locks are nested, the setting of the
/// outermost one applies.
///
/// This also holds if it is not the client that ends the handler, but something between the two locks, such as a timeout
/// middleware. The handler is then dropped halfway, even with [`Finish`](Self::Finish), because it would run on without the
/// outer lock. Put the timeout outside of the outer lock: the handler then runs to its end under both.
///
/// # Examples
///
/// ```
/// use lock_axum::{LockLayer, LockManager, OnDisconnect};
///
/// // An expensive report that nobody will read.
/// let layer = LockLayer::new(LockManager::in_memory(), "report").on_disconnect(OnDisconnect::Cancel);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The handler runs to its end with the lock held, and shutdown waits for it.
    ///
    /// Until the client disconnects, the handler runs in the task of its request, where it sees the task-locals and
    /// spans of outer middleware, which sees its panics. Then it moves to a task of its own on the same runtime. There
    /// it keeps the tracing span and the scope of the lease, but no other task-locals. If that runtime shuts down, the
    /// handler is dropped, and the lock is released.
    #[default]
    Finish,
    /// The handler's future is dropped at the `.await` where it is suspended, and the lock is released.
    Cancel,
}

/// Until when the lock of a handler is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldUntil {
    /// Until the handler has answered.
    #[default]
    Answer,
    /// Until the body of the response has been sent.
    BodyEnd,
    /// Until the handler has answered, and the session has ended into which it took its [`Hold`](crate::Hold).
    SessionEnd,
}

/// How a handler is guarded: the settings that layer and macro have in common. `None` leaves a setting to the manager.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What the lock allows beside it.
    pub kind: Kind,
    /// Time to live of the lock.
    pub ttl: Option<Duration>,
    /// The longest time to wait for the lock.
    pub wait: Option<Duration>,
    /// The longest time to hold the lock.
    pub max_hold: Option<Duration>,
    /// Whether the lock is renewed while it is held.
    pub renew: Option<bool>,
    /// Until when the lock is held.
    pub hold: HoldUntil,
    /// Whether a request that carries a delegation is handled under that.
    pub adopt: bool,
    /// What happens when the lease is lost.
    pub on_lost: OnLost,
    /// What happens when the client disconnects.
    pub on_disconnect: OnDisconnect,
    /// The status of the response when the lock is busy.
    pub busy_status: u16,
    /// The header `Retry-After`, in whole seconds.
    pub retry_after: Duration,
    /// What metrics and traces show instead of the resource, or of each resource of a set of locks.
    pub templates: Vec<Arc<str>>,
}

/// A request for a lock, or for a set of locks, with the settings of a policy.
macro_rules! with_settings {
    ($policy:expr, $request:expr) => {{
        let mut request = $request;
        if let Some(ttl) = $policy.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = $policy.wait {
            request = request.wait(wait);
        }
        if let Some(max_hold) = $policy.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(renew) = $policy.renew {
            request = request.renew(renew);
        }
        request
    }};
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            kind: Kind::Write,
            ttl: None,
            wait: None,
            max_hold: None,
            renew: None,
            hold: HoldUntil::Answer,
            adopt: false,
            on_lost: OnLost::Cancel,
            on_disconnect: OnDisconnect::Finish,
            busy_status: StatusCode::CONFLICT.as_u16(),
            retry_after: Duration::from_secs(1),
            templates: Vec::new(),
        }
    }
}

impl Policy {
    /// A request for the lock on a resource, with the settings of this policy.
    pub(crate) fn request(&self, locks: &LockManager, resource: &str) -> LockRequest {
        let request = with_settings!(self, locks.lock(resource)).kind(self.kind);
        match self.templates.first() {
            Some(template) => request.template(Arc::clone(template)),
            None => request,
        }
    }

    /// A request for a set of locks, with the settings of this policy.
    pub(crate) fn request_all(&self, locks: &LockManager, resources: &[String]) -> SetRequest {
        let (written, read) = match self.kind {
            Kind::Read => (&[][..], resources),
            // Layer and macro refuse permits of several resources.
            _ => (resources, &[][..]),
        };
        with_settings!(self, locks.lock_all(written)).read(read).templates(self.templates.iter().cloned())
    }
}
