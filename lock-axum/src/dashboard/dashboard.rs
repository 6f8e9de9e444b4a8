use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Html;
use axum::routing::{get, post};
use http::{HeaderName, header};
use lock_core::LockManager;

use super::control::release;
use super::events::{Pages, events};
use super::hosts::{Hosts, InvalidHost, check_host};

/// The page has its style and its script in itself, talks to its own service, and is in no frame. The hashes name the two
/// elements in the file.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'sha256-2+yw/SBVJGqowMfP2UgZjkVu7eAyKa9yRrv+HU/T+gE='; \
         script-src 'sha256-axi5Z48tVLy8IZSZ5Zpko/oLSthvHxGM5q8PkM1kVlg='; connect-src 'self'; img-src data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// A page that shows what a manager holds and waits for, live, and how its masters are.
///
/// It lists held locks by the template of their resource: each with its fencing token, how long it has been held, its remaining
/// validity, and how many callers of this process wait for it. It also lists resources that are held elsewhere while callers of this
/// process wait. It shows at most 1,000 rows, the ones with waiters and the oldest first, and how many are left out.
/// With [`redact(true)`](crate::LockManagerBuilder::redact), templates stand instead of the names of resources.
///
/// The page covers one process: behind a load balancer, it shows the locks of the instance that answers.
///
/// # Routes
///
/// | Request | Answer |
/// |---|---|
/// | `GET /` | the page: one file, which loads nothing else |
/// | `GET /events` | what the page shows, as server-sent events with JSON; 503 if 16 pages are open |
///
/// Nothing can be changed through them, except [with control](Dashboard::with_control). **They have no authentication of their
/// own**: nest them below a layer that has. The page works below any path. With `nest_service`, a slash at the end of that path leads to
/// it, too; with axum's `nest` it does not.
///
/// # Hosts
///
/// Requests are answered if their `Host` is an IP address, `localhost`, or a name that was given with [`host`](Dashboard::host). Others
/// get 403, with a text that says what to do. Without that, a site on the internet could let its name resolve to the address of this
/// service, and read the page in the browser of somebody inside. Where a layer checks who asks, [say
/// so](Dashboard::behind_authentication).
///
/// # Cost
///
/// None while no page is open. With open pages, the state is computed at most twice a second for all of them, and the masters are
/// asked every other second, as [`LockManager::health`] does. Open pages do not delay a shutdown: their streams end when the
/// manager is [closed](LockManager::closed).
///
/// # Examples
///
/// Below a path, with HTTP basic authentication, whose credentials have to travel over TLS:
///
/// ```
/// use axum::extract::{Request, State};
/// use axum::http::{HeaderValue, StatusCode, header};
/// use axum::middleware::{self, Next};
/// use axum::response::{IntoResponse, Response};
/// use axum::Router;
/// use data_encoding::BASE64;
/// use lock_axum::{LockManager, dashboard};
/// use subtle::ConstantTimeEq as _;
///
/// /// Lets a request pass that has these credentials.
/// async fn log_in(State(credentials): State<String>, request: Request, next: Next) -> Response {
///     let sent = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
///     // Takes as long for a password that is nearly right as for any other of its length.
///     if bool::from(sent.ct_eq(credentials.as_bytes())) {
///         return next.run(request).await;
///     }
///     let challenge = [(header::WWW_AUTHENTICATE, r#"Basic realm="locks", charset="UTF-8""#)];
///     (StatusCode::UNAUTHORIZED, challenge).into_response()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use axum::body::Body;
/// # use tower::ServiceExt as _;
/// # let locks = LockManager::in_memory();
/// # let password = "secret";
/// let credentials = format!("Basic {}", BASE64.encode(format!("admin:{password}").as_bytes()));
/// let page = Router::from(dashboard(locks.clone()).behind_authentication()).layer(middleware::from_fn_with_state(credentials, log_in));
/// let app: Router = Router::new().nest_service("/locks", page);
/// # for (authorization, status) in [("Basic YWRtaW46c2VjcmV0", 200), ("Basic YWRtaW46c2VjcmVU", 401), ("", 401)] {
/// #     let request = Request::get("/locks/").header(header::AUTHORIZATION, authorization).body(Body::empty()).unwrap();
/// #     assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status);
/// # }
/// # }
/// ```
pub fn dashboard(locks: LockManager) -> Dashboard {
    Dashboard { locks, control: false, hosts: Hosts::default() }
}

/// The page of [`dashboard`], to be turned into a [`Router`] with `into`.
///
/// # Examples
///
/// ```
/// use axum::Router;
/// use lock_axum::{LockManager, dashboard};
///
/// let locks = LockManager::in_memory();
/// let page = Router::from(dashboard(locks));
/// let app: Router = Router::new().nest_service("/locks", page);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a dashboard is not served before it is a router"]
pub struct Dashboard {
    locks: LockManager,
    control: bool,
    hosts: Hosts,
}

impl Dashboard {
    /// Adds a button to each row that takes the lock from its holder, as [`LockManager::force_release`] does: everybody who may see the
    /// page may do that. With [`redact(true)`](crate::LockManagerBuilder::redact), there are no buttons.
    ///
    /// The button sends `POST /release` with `{"resource": "stock:42", "token": "17"}` as JSON, where the token is null if another
    /// process holds the lock. The answer has the token to claim at the resource; it is 409 if this process had the lock when it was shown, or
    /// has it now, and not with that token, and 403 if another site made the browser send the request. If another process had it, a third one
    /// may have it by now: whoever holds it loses it.
    ///
    /// Defaults to a page without buttons.
    pub fn with_control(mut self) -> Self {
        self.control = true;
        self
    }

    /// Answers requests for this host, too, such as `"locks.example.com"`, on any port. May be called several times.
    ///
    /// Defaults to none: only IP addresses and `localhost`.
    ///
    /// # Errors
    ///
    /// [`InvalidHost`] if this is not a name alone: if it has a scheme, a port or a path.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::Router;
    /// use lock_axum::{LockManager, dashboard};
    ///
    /// # fn main() -> Result<(), lock_axum::InvalidHost> {
    /// let page = dashboard(LockManager::in_memory()).host("locks.example.com")?;
    /// let app: Router = Router::new().nest_service("/locks", Router::from(page));
    /// # Ok(())
    /// # }
    /// ```
    pub fn host(mut self, name: &str) -> Result<Self, InvalidHost> {
        self.hosts.add(name)?;
        Ok(self)
    }

    /// Says that a layer above lets nobody in who has not logged in. Requests are then answered whatever their `Host`, because a
    /// site that borrows the address of this service has no credentials for it.
    ///
    /// Defaults to a page that checks the host.
    pub fn behind_authentication(mut self) -> Self {
        self.hosts.any = true;
        self
    }
}

impl<S> From<Dashboard> for Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    fn from(Dashboard { locks, control, hosts }: Dashboard) -> Self {
        // Redacted rows have no name to release, and no holder is to be found out here.
        let control = control && !locks.redacts();
        let mut router = Router::new()
            .route("/", get(async || (HEADERS, Html(include_str!("page.html")))))
            .route("/events", get(events));
        if control {
            router = router.route("/release", post(release));
        }
        router.layer(from_fn_with_state(hosts, check_host)).with_state(Arc::new(Pages::new(locks, control)))
    }
}
