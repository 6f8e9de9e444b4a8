use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use lock_core::{LockError, LockManager};
use tower_layer::Layer;

use super::LockService;
use crate::policy::{OnDisconnect, OnLost, Policy};
use crate::rejection::{KeyError, LockRejection};
use crate::template::Template;

/// How much of a request's body is read before the lock is taken, unless the layer was told otherwise.
const BODY_LIMIT: usize = 2 * 1024 * 1024;

/// Runs the routes that it is put on under a distributed lock.
///
/// ```
/// # use axum::{Router, routing::post};
/// # use lock_axum::{FencingToken, LockLayer, LockManager};
/// # use std::time::Duration;
/// async fn deduct(token: FencingToken) -> String {
///     format!("runs alone for this sku, with token {token}")
/// }
///
/// let locks = LockManager::in_memory();
/// let app: Router = Router::new()
///     .route("/stock/{sku}/deduct", post(deduct))
///     .route_layer(LockLayer::new(locks, "stock:{sku}").wait(Duration::from_secs(2)));
/// ```
///
/// [`Lease`](crate::Lease) and [`FencingToken`](crate::FencingToken) are put into the request's extensions, and are
/// extractors; the token is put into the response's extensions, too, for middleware outside. Failures are answered as told at
/// [`LockRejection`].
///
/// The request's body is read *before* the lock is taken, so that a slow upload holds nothing; a body above the limit is
/// answered with 413. The lock is released when the handler has answered, in the background.
#[derive(Clone)]
pub struct LockLayer(Config);

/// What the layer hands to its services.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) locks: LockManager,
    pub(super) key: Key,
    pub(super) policy: Policy,
    pub(super) on_error: Option<Arc<dyn Fn(LockError) -> Response + Send + Sync>>,
    /// `None` leaves the body in the request.
    pub(super) body_limit: Option<usize>,
    pub(super) until_body_end: bool,
}

/// Where the name of the resource comes from.
#[derive(Clone)]
pub(super) enum Key {
    Template(Arc<Template>),
    Function(Arc<KeyFunction>),
}

type KeyFunction = dyn Fn(&Parts) -> Result<String, KeyError> + Send + Sync;

impl Key {
    pub(super) async fn of(&self, parts: &mut Parts) -> Result<String, LockRejection> {
        match self {
            Self::Template(template) => template.fill(parts).await,
            Self::Function(function) => Ok(function(parts)?),
        }
    }
}

impl LockLayer {
    /// A layer that locks by a template: `{sku}` is a path parameter, `{header.x-tenant}` a header, `{query.q}` a value of the
    /// query. In values every byte outside `A-Za-z0-9-._~` becomes `%XX`, so that no value can forge another resource.
    ///
    /// Values are taken as they were sent: `/stock/7` and `/stock/07` are two locks, also where the handler reads one number. Where
    /// two spellings mean the same thing, use [`with_key`](Self::with_key), or `#[distributed_lock]`, which locks by the values
    /// that the handler gets.
    ///
    /// A header or query value that is missing, or there twice, is answered with 400; a path parameter that the route does not
    /// have with 500 and an error in the log: use `route_layer`, or a `layer` on a router all of whose routes have it.
    ///
    /// # Panics
    ///
    /// If the template is malformed: empty, a brace without a partner, a placeholder of another kind, a control character, or more
    /// than 512 bytes of text.
    #[must_use]
    #[expect(clippy::panic, reason = "as axum does when a route is malformed")]
    pub fn new(locks: LockManager, template: impl AsRef<str>) -> Self {
        let template = template.as_ref();
        match Template::parse(template) {
            Ok(template) => Self::with(locks, Key::Template(Arc::new(template))),
            Err(error) => panic!("malformed lock template {template:?}: {error}"),
        }
    }

    /// A layer that locks by a function of the request's head. The name that it returns is taken as it is; encode what comes
    /// from outside.
    #[must_use]
    pub fn with_key<F>(locks: LockManager, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        Self::with(locks, Key::Function(Arc::new(key)))
    }

    fn with(locks: LockManager, key: Key) -> Self {
        let (policy, body_limit) = (Policy::new(), Some(BODY_LIMIT));
        Self(Config { locks, key, policy, on_error: None, body_limit, until_body_end: false })
    }

    /// How long the key lives unless it is renewed. Defaults to the manager's.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.policy.ttl = Some(ttl);
        self
    }

    /// How long a request waits for the lock; zero tries once. Defaults to the manager's.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.0.policy.wait = Some(wait);
        self
    }

    /// How long the lock may be held in all; then it is lost. Defaults to the manager's.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.0.policy.max_hold = Some(max_hold);
        self
    }

    /// Whether the lock is renewed while the handler runs. Defaults to the manager's.
    #[must_use]
    pub fn renew(mut self, renew: bool) -> Self {
        self.0.policy.renew = Some(renew);
        self
    }

    /// What becomes of a handler whose lease is lost. Defaults to [`OnLost::Cancel`].
    #[must_use]
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.0.policy.on_lost = on_lost;
        self
    }

    /// What becomes of a handler whose client hangs up. Defaults to [`OnDisconnect::Finish`].
    #[must_use]
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.0.policy.on_disconnect = on_disconnect;
        self
    }

    /// The status when the lock is busy: 409, 423, 429 or 503. Defaults to 409.
    ///
    /// # Panics
    ///
    /// With any other status.
    #[must_use]
    pub fn busy_status(mut self, status: StatusCode) -> Self {
        let allowed = [409, 423, 429, 503];
        assert!(allowed.contains(&status.as_u16()), "busy_status is {status}, allowed are {allowed:?}");
        self.0.policy.busy_status = status.as_u16();
        self
    }

    /// Answers lock errors in place of the problem document. An answer of success to a lost lease is not let out.
    #[must_use]
    pub fn on_error<F, R>(mut self, on_error: F) -> Self
    where
        F: Fn(LockError) -> R + Send + Sync + 'static,
        R: IntoResponse,
    {
        self.0.on_error = Some(Arc::new(move |error| on_error(error).into_response()));
        self
    }

    /// The most bytes of a request's body that are read before the lock is taken. Defaults to 2 MiB; above, 413.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.0.body_limit = Some(bytes);
        self
    }

    /// Takes the lock before the request's body is read, and lets the handler read it under the lock.
    #[must_use]
    pub fn stream_request_body(mut self) -> Self {
        self.0.body_limit = None;
        self
    }

    /// Holds the lock until the response's body is done, for streams and server-sent events. If the lease is lost before, the
    /// body ends with an error. Defaults to until the handler has answered.
    #[must_use]
    pub fn hold_until_body_end(mut self) -> Self {
        self.0.until_body_end = true;
        self
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = LockService<S>;

    fn layer(&self, inner: S) -> LockService<S> {
        LockService::new(inner, Arc::new(self.0.clone()))
    }
}

impl fmt::Debug for LockLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}
