use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::Extensions;
use http::request::Parts;
use lock_core::{Lease, LockGuard, Mutex};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::policy::OnLost;
use crate::problem::Problem;
use crate::until_lost::until_lost;

/// How long a session may take to begin once its handler has ended.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// Takes the lock of a handler along into the session that follows its answer, such as a WebSocket.
///
/// A parameter of a handler with `#[distributed_lock(hold = "session", max_hold = "…", …)]`, and an extractor below a
/// [`LockLayer`](crate::LockLayer) with [`hold_until_session_end`](crate::LockLayer::hold_until_session_end). The
/// handler moves it into what outlives the answer, and calls [`run`](Self::run) there. [The
/// guide](crate::guide::sessions) says when that is right, and what it costs.
///
/// The lock is held until the handler has answered *and* the hold is gone: dropped, or its session has ended. So a
/// handler that answers with an error just drops it, with everything else. The session must begin within 10 seconds of
/// the end of the handler. If it does not, because a middleware has replaced the answer or the client never completed
/// the upgrade, the lock is released, with the event `lock.session_not_begun`. When a connection breaks before its
/// upgrade, axum drops the callback of `on_upgrade`, and with it the hold.
///
/// # Examples
///
/// ```
/// use axum::extract::Path;
/// use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
/// use axum::response::Response;
/// use axum::routing::any;
/// use axum::{Extension, Router};
/// use lock_axum::{Hold, Lease, LockManager, distributed_lock};
///
/// // One editor for each document. The second client gets 409 instead of a session.
/// #[distributed_lock(resource = "document:{id}", hold = "session", max_hold = "1h", wait = "0s")]
/// async fn edit(Path(id): Path<String>, ws: WebSocketUpgrade, hold: Hold) -> Response {
///     ws.on_upgrade(move |socket| hold.run(async |lease| type_along(id, socket, lease).await))
/// }
///
/// async fn type_along(id: String, mut socket: WebSocket, lease: Lease) {
///     while let Some(Ok(Message::Text(text))) = socket.recv().await {
///         println!("{id}: {text}, with token {}", lease.token());
///     }
/// }
///
/// let app: Router =
///     Router::new().route("/documents/{id}", any(edit)).layer(Extension(LockManager::in_memory()));
/// ```
#[must_use = "the lock is released when the handler answers, unless its hold is run"]
pub struct Hold {
    /// Empty if the session did not begin in time.
    guard: Arc<Mutex<Option<LockGuard>>>,
    on_lost: OnLost,
    /// Closed when the session begins, and when the hold is dropped.
    awaited: oneshot::Sender<()>,
}

impl Hold {
    /// Runs a session under the lock, and releases the lock in the background when it has ended. If the lease is lost,
    /// the future of the session is dropped, and its socket is closed with it.
    ///
    /// If the lock is not held any more when this is first polled, the session is not run at all. With
    /// [`OnLost::Continue`], a session that has begun runs on after a loss, and can look at its lease.
    ///
    /// Inside the session, [`Lease::current`] returns the lease. Nothing but the session itself notices that its
    /// client is gone: it ends when the socket does, so let it send pings, or give up a client that is silent for too
    /// long. Otherwise a client that vanishes keeps the lock until `max_hold`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session is dropped first, and then the lock is released. A future that is never
    /// polled is a session that does not begin.
    ///
    /// # Examples
    ///
    /// Not only upgrades have sessions. This job begins when its handler answers, and runs in a task of its own:
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use lock_axum::{Hold, distributed_lock};
    ///
    /// #[distributed_lock(resource = "index", hold = "session", max_hold = "10m")]
    /// async fn rebuild(hold: Hold) -> StatusCode {
    ///     tokio::spawn(hold.run(async |lease| println!("rebuilding with token {}", lease.token())));
    ///     StatusCode::ACCEPTED
    /// }
    /// # axum::Router::<()>::new().route("/", axum::routing::post(rebuild));
    /// ```
    pub async fn run(self, session: impl AsyncFnOnce(Lease)) {
        let Self { guard, on_lost, awaited } = self;
        let Some(guard) = take(&guard) else { return };
        drop(awaited);
        if !guard.is_valid() {
            return;
        }
        // Boxed, because each of the steps around it would reserve room for it.
        let session = Box::pin(guard.scope(session(guard.lease())));
        // A loss is logged where it is found.
        _ = until_lost(guard, session, on_lost).await;
    }
}

lock_core::opaque_debug!(Hold, |this| "on_lost": this.on_lost);

impl<S: Sync> FromRequestParts<S> for Hold {
    type Rejection = MissingHold;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingHold> {
        let offered = parts.extensions.get::<Offered>().and_then(|Offered(hold)| hold.upgrade());
        offered.and_then(|hold| take(&hold)).ok_or(MissingHold(()))
    }
}

/// In the extensions of a request: a hold that an extractor may take while the handler runs.
#[derive(Clone)]
struct Offered(Weak<Mutex<Option<Hold>>>);

/// What is kept of a hold while its handler runs. Dropped at the end of the handler, it gives the session its time to
/// begin.
pub struct PendingSession {
    guard: Weak<Mutex<Option<LockGuard>>>,
    lease: Lease,
    /// Ends when nothing is awaited any more.
    begun: Option<oneshot::Receiver<()>>,
    /// The hold, until it is extracted.
    offered: Option<Arc<Mutex<Option<Hold>>>>,
    runtime: Option<Handle>,
}

impl PendingSession {
    /// A hold on the lock of a handler that is about to run.
    pub(crate) fn new(guard: &LockGuard, on_lost: OnLost) -> (Hold, Self) {
        let lease = guard.lease();
        if lease.is_adopted() {
            lock_core::log_event!(error: "lock.session_not_held", token = lease.token().get(),
                "a session cannot hold a lock that was adopted: it ends with the answer; take `adopt` from the outer layer or handler");
        }
        let guard = Arc::new(Mutex::new(Some(guard.share())));
        let (awaited, begun) = oneshot::channel();
        let pending = Self {
            guard: Arc::downgrade(&guard),
            lease,
            begun: Some(begun),
            offered: None,
            runtime: Handle::try_current().ok(),
        };
        (Hold { guard, on_lost, awaited }, pending)
    }

    /// A hold that an extractor finds in the extensions of a request, as long as the handler runs.
    pub(crate) fn offered_in(extensions: &mut Extensions, guard: &LockGuard, on_lost: OnLost) -> Self {
        let (hold, mut pending) = Self::new(guard, on_lost);
        let offered = Arc::new(Mutex::new(Some(hold)));
        extensions.insert(Offered(Arc::downgrade(&offered)));
        pending.offered = Some(offered);
        pending
    }
}

/// A handler with the session that may follow it. Dropping it drops the handler first, as `Map` drops its future.
pub(crate) fn in_session<F: Future>(handler: F, session: Option<PendingSession>) -> impl Future<Output = F::Output> {
    handler.map(|output| {
        drop(session);
        output
    })
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        // Nobody has extracted it.
        self.offered = None;
        let (guard, lease) = (self.guard.clone(), self.lease.clone());
        let (Some(begun), Some(runtime)) = (self.begun.take(), &self.runtime) else { return };
        if guard.strong_count() == 0 {
            return;
        }
        runtime.spawn(async move {
            let settled = async {
                tokio::select! {
                    _ = begun => {}
                    () = lease.lost() => {}
                }
            };
            let in_time = timeout(BEGINS_WITHIN, settled).await.is_ok();
            let late = guard.upgrade().and_then(|guard| take(&guard));
            if late.is_some() && !in_time {
                lock_core::log_event!(warn: "lock.session_not_begun",
                    "the session of a handler has not begun within {BEGINS_WITHIN:?}: its lock is released");
            }
        });
    }
}

/// Empties a slot. What was in it is dropped after the mutex is unlocked.
fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().take()
}

/// The rejection of the extractor [`Hold`] in a request that has none: `500 Internal Server Error`.
///
/// Either no [`LockLayer`](crate::LockLayer) with [`hold_until_session_end`](crate::LockLayer::hold_until_session_end)
/// guards the route, or another extractor has taken the hold: there is one for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no Hold in the request: no LockLayer with hold_until_session_end guards the route, or the Hold was taken")]
pub struct MissingHold(());

impl IntoResponse for MissingHold {
    fn into_response(self) -> Response {
        lock_core::log_event!(error: "lock.no_hold",
            "{self}; add .hold_until_session_end(..) to the layer, and extract one Hold; a handler with #[distributed_lock] takes \
             it as its own parameter, with hold = \"session\"");
        Problem::internal().into_response()
    }
}
