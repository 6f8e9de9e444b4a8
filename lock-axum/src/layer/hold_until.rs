//! Until when a layer holds its lock.

use std::time::Duration;

use super::LockLayer;
use super::resource::ResourceSource;
#[cfg(doc)]
use crate::hold::Hold;
use crate::policy::HoldUntil;

impl LockLayer {
    /// Holds the lock until the end of the response body, for streams and server-sent events.
    ///
    /// If the lease is lost before, the body ends with an error. Defaults to releasing the lock when the handler has
    /// responded.
    ///
    /// The response to `HEAD`, and one with an empty body, releases at once. It has no effect on an
    /// [upgrade](Self#upgrades), such as that to a WebSocket. Replaces
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
    /// answer.
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
