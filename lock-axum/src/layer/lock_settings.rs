//! The settings of the lock itself, and until when it is held. Those that are left out are the manager's.

use std::time::Duration;

use lock_core::Kind;
use lock_core::limits::MAX_PERMITS;

use super::LockLayer;
use super::resource::ResourceSource;
#[cfg(doc)]
use crate::hold::Hold;
use crate::policy::HoldUntil;

impl LockLayer {
    /// Lets up to `permits` requests in at once, each with a slot of its own, as [`LockManager::permits`](lock_core::LockManager::permits) does: from 1 to 100.
    ///
    /// Defaults to a lock, which has one holder and no slots.
    ///
    /// # Panics
    ///
    /// If it is out of range, if the layer locks [several resources](Self::new_all), which have no permits, or if it
    /// [reads](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "export").permits(3);
    /// ```
    #[track_caller]
    pub fn permits(self, permits: u32) -> Self {
        assert!((1..=MAX_PERMITS).contains(&permits), "permits must be between 1 and {MAX_PERMITS}, got {permits}");
        let is_set = matches!(self.0.resource, ResourceSource::Set(_));
        assert!(!is_set, "permits cannot be combined with several resources: a set has locks only");
        self.of_kind(Kind::Permit { of: permits })
    }

    /// Sets the time to live of the lock: how long it outlives a holder that crashed.
    ///
    /// From 100 ms to the manager's `max_ttl`. Defaults to the manager's `ttl`.
    ///
    /// # Panics
    ///
    /// If it is out of range, or too short for the manager's `min_validity`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # use std::time::Duration;
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").ttl(Duration::from_secs(10));
    /// ```
    #[track_caller]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.policy.ttl = Some(ttl);
        self.0.check();
        self
    }

    /// Sets the longest time that a request waits for the lock. Zero tries once.
    ///
    /// From zero to one day. Defaults to the manager's `wait`.
    ///
    /// # Panics
    ///
    /// If it is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # use std::time::Duration;
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").wait(Duration::ZERO);
    /// ```
    #[track_caller]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.0.policy.wait = Some(wait);
        self.0.check();
        self
    }

    /// Sets the longest time that the lock may be held, renewals included. After it, the lease is lost.
    ///
    /// From 1 ms to 7 days. Defaults to the manager's `max_hold`.
    ///
    /// # Panics
    ///
    /// If it is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # use std::time::Duration;
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").max_hold(Duration::from_secs(60));
    /// ```
    #[track_caller]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.0.policy.max_hold = Some(max_hold);
        self.0.check();
        self
    }

    /// Sets whether the lock is renewed while it is held. Without renewal, the lease is lost at the end of the time to
    /// live.
    ///
    /// Defaults to the manager's `renew`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "stock:{sku}").renew(false);
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.0.policy.renew = Some(renew);
        self
    }

    /// Holds the lock as a reader: the handler runs together with other readers, but not with a writer. Without this, the layer writes. See
    /// [`LockManager::read`](lock_core::LockManager::read).
    ///
    /// # Panics
    ///
    /// If the layer has [`permits`](Self::permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "catalog").read();
    /// ```
    #[track_caller]
    pub fn read(self) -> Self {
        self.of_kind(Kind::Read)
    }

    #[track_caller]
    fn of_kind(mut self, kind: Kind) -> Self {
        let is_combined =
            matches!((self.0.policy.kind, kind), (Kind::Read, Kind::Permit { .. }) | (Kind::Permit { .. }, Kind::Read));
        assert!(!is_combined, "read cannot be combined with permits: each permit has one holder");
        self.0.policy.kind = kind;
        self
    }

    /// Adopts the [delegation](lock_core::Lease::delegate) of a request that carries one in the header `lock-delegation`: nothing is
    /// acquired, and the handler has the lease and the token of the service that sent it. A request without one acquires the lock.
    ///
    /// A delegation that is not valid, or for another resource than the request, is answered with 403
    /// `lock-delegation-refused`, and the handler does not run. `ttl`, `wait`, `max_hold` and `renew` are the sender's.
    /// [The guide](crate::guide::delegation) has both sides.
    ///
    /// # Panics
    ///
    /// With [`hold_until_session_end`](Self::hold_until_session_end): the answer tells the sender that the work under its lock is done.
    /// Also if the layer locks [several resources](Self::new_all): a delegation is of one lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "order:{order}").adopt_delegations();
    /// ```
    #[track_caller]
    pub fn adopt_delegations(mut self) -> Self {
        self.0.policy.adopt = true;
        self.0.check();
        self
    }

    /// Holds the lock until the end of the response body, for streams and server-sent events.
    ///
    /// The body runs in the scope of the lock, as the handler did. If the lease is lost before, it ends with an error. Defaults to
    /// releasing the lock when the handler has responded.
    ///
    /// The response to `HEAD`, and one with an empty body, releases at once. It has no effect on an
    /// [upgrade](Self#upgrades), such as that to a WebSocket (101, or a `CONNECT` over HTTP/2). Replaces
    /// [`hold_until_session_end`](Self::hold_until_session_end).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// let layer = LockLayer::new(LockManager::in_memory(), "export").hold_until_body_end();
    /// ```
    pub fn hold_until_body_end(mut self) -> Self {
        self.0.policy.hold = HoldUntil::BodyEnd;
        self
    }

    /// Lets the handler take the lock along into the session that follows its answer, such as a WebSocket, for at
    /// most `max_hold`: the extractor [`Hold`] has it. A handler that does not extract it releases the lock with its
    /// answer, which is logged once for each layer as `lock.upgrade_not_held` if that is an [upgrade](Self#upgrades).
    ///
    /// A session may last longer than any request, so `max_hold` has no default here; otherwise it is the same setting as
    /// [`max_hold`](Self::max_hold). Replaces [`hold_until_body_end`](Self::hold_until_body_end).
    ///
    /// # Panics
    ///
    /// If `max_hold` is out of range: from 1 ms to 7 days. Also with [`adopt_delegations`](Self::adopt_delegations), and if the layer
    /// locks [several resources](Self::new_all), which cannot be held for a session.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use axum::Router;
    /// use axum::extract::ws::{WebSocket, WebSocketUpgrade};
    /// use axum::response::Response;
    /// use axum::routing::get;
    /// use lock_axum::{Hold, Lease, LockLayer, LockManager};
    ///
    /// async fn edit(ws: WebSocketUpgrade, hold: Hold) -> Response {
    ///     ws.on_upgrade(move |socket| hold.run(async |lease| type_along(socket, lease).await))
    /// }
    ///
    /// async fn type_along(mut socket: WebSocket, _lease: Lease) {
    ///     while let Some(Ok(_message)) = socket.recv().await {}
    /// }
    ///
    /// let layer = LockLayer::new(LockManager::in_memory(), "document:{id}")
    ///     .hold_until_session_end(Duration::from_secs(60 * 60))
    ///     .wait(Duration::ZERO);
    /// let app: Router = Router::new().route("/documents/{id}", get(edit).route_layer(layer));
    /// ```
    #[track_caller]
    pub fn hold_until_session_end(mut self, max_hold: Duration) -> Self {
        let is_set = matches!(self.0.resource, ResourceSource::Set(_));
        assert!(!is_set, "a layer with several resources cannot hold them for a session: lock one for the session");
        self.0.policy.hold = HoldUntil::SessionEnd;
        self.max_hold(max_hold)
    }
}
