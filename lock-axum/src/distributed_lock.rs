//! The attribute macro, documented with examples that run: `lock-macros` cannot depend on this crate to test them.

/// Guards an axum handler, or any `async fn`, with a distributed lock: its body runs for one holder at a time across
/// every instance of the service.
///
/// # Examples
///
/// A handler. The manager comes from the request extensions; `Lease` is provided by the lock:
///
/// ```
/// use axum::body::Body;
/// use axum::extract::Path;
/// use axum::http::{Request, StatusCode};
/// use axum::routing::post;
/// use axum::{Extension, Router};
/// use lock_axum::{Lease, LockManager, distributed_lock};
/// use tower::ServiceExt as _;
///
/// #[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "100ms")]
/// async fn deduct(Path(sku): Path<String>, lease: Lease) -> String {
///     format!("deducting {sku} with token {}", lease.token())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::in_memory();
/// let app = Router::new().route("/stock/{sku}/deduct", post(deduct)).layer(Extension(locks.clone()));
///
/// let response = app.clone().oneshot(Request::post("/stock/42/deduct").body(Body::empty())?).await?;
/// assert_eq!(response.status(), StatusCode::OK);
///
/// // While another holder has the lock, the request waits for 100 ms and is then turned away.
/// let guard = locks.lock("stock:42").acquire().await?;
/// let response = app.oneshot(Request::post("/stock/42/deduct").body(Body::empty())?).await?;
/// assert_eq!(response.status(), StatusCode::CONFLICT);
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
///
/// The same with the manager in the router's state:
///
/// ```
/// use axum::Router;
/// use axum::extract::{FromRef, Path, State};
/// use axum::routing::post;
/// use lock_axum::{Lease, LockManager, distributed_lock};
///
/// #[derive(Clone, FromRef)]
/// struct App {
///     locks: LockManager,
///     shop: String,
/// }
///
/// #[distributed_lock(resource = "stock:{sku}", state)]
/// async fn deduct(State(app): State<App>, Path(sku): Path<String>, lease: Lease) -> String {
///     format!("deducting {sku} in {} with token {}", app.shop, lease.token())
/// }
///
/// let app = App { locks: LockManager::in_memory(), shop: "Oslo".to_owned() };
/// let router: Router = Router::new().route("/stock/{sku}/deduct", post(deduct)).with_state(app);
/// ```
///
/// If the state is shared as `Arc<App>`, `FromRef` cannot be implemented for it: neither it nor `LockManager` is a type of
/// your crate. Put the `Arc` into a type that is:
///
/// ```
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::extract::{FromRef, Path, State};
/// use axum::routing::post;
/// use lock_axum::{LockManager, distributed_lock};
///
/// struct App {
///     shop: String,
/// }
///
/// #[derive(Clone, FromRef)]
/// struct AppState {
///     app: Arc<App>,
///     locks: LockManager,
/// }
///
/// #[distributed_lock(resource = "stock:{sku}", state)]
/// async fn deduct(State(app): State<Arc<App>>, Path(sku): Path<String>) -> String {
///     format!("deducting {sku} in {}", app.shop)
/// }
///
/// let app = Arc::new(App { shop: "Oslo".to_owned() });
/// let state = AppState { app, locks: LockManager::in_memory() };
/// let router: Router = Router::new().route("/stock/{sku}/deduct", post(deduct)).with_state(state);
/// ```
///
/// A method, or any other function, with the manager given by an expression:
///
/// ```
/// use lock_axum::{FencingToken, Lease, LockError, LockManager, distributed_lock};
///
/// struct Shop {
///     locks: LockManager,
/// }
///
/// impl Shop {
///     #[distributed_lock(resource = "stock:{sku}", manager = self.locks)]
///     async fn deduct(&self, sku: &str, quantity: u32) -> Result<FencingToken, LockError> {
///         let lease = Lease::current().expect("the body runs under the lock");
///         println!("deducting {quantity} of {sku}");
///         Ok(lease.token())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let shop = Shop { locks: LockManager::in_memory() };
/// let first = shop.deduct("42", 1).await?;
/// let second = shop.deduct("42", 1).await?;
/// assert!(first < second);
/// # Ok(())
/// # }
/// ```
///
/// A computed resource. Two spellings of a sku share one lock:
///
/// ```
/// use axum::extract::Path;
/// use axum::http::StatusCode;
/// use lock_axum::{distributed_lock, encode_value};
///
/// #[distributed_lock(key = format!("stock:{}", encode_value(sku.to_lowercase())))]
/// async fn deduct(Path(sku): Path<String>) -> StatusCode {
///     println!("deducting {sku}");
///     StatusCode::NO_CONTENT
/// }
/// # axum::Router::<()>::new().route("/{sku}", axum::routing::post(deduct));
/// ```
///
/// Every argument of a handler, and a function that answers lock errors:
///
/// ```
/// use axum::extract::Path;
/// use axum::http::StatusCode;
/// use lock_axum::{FencingToken, LockError, distributed_lock};
///
/// #[distributed_lock(
///     resource = "stock:{warehouse}/{sku}",
///     ttl = "10s",
///     wait = "2s",
///     max_hold = "1m",
///     renew = true,
///     hold = "body",
///     on_lost = "cancel",
///     on_disconnect = "finish",
///     busy_status = 423,
///     retry_after = "5s",
///     on_error = answer
/// )]
/// async fn deduct(Path((warehouse, sku)): Path<(String, String)>, token: FencingToken) -> String {
///     format!("deducting {sku} in {warehouse} with token {token}")
/// }
///
/// fn answer(error: LockError) -> (StatusCode, &'static str) {
///     match error {
///         LockError::Contended { .. } => (StatusCode::LOCKED, "this article is being sold right now"),
///         _ => (StatusCode::SERVICE_UNAVAILABLE, "please try again later"),
///     }
/// }
/// # axum::Router::<()>::new().route("/{warehouse}/{sku}", axum::routing::post(deduct));
/// ```
///
/// With other attributes, `#[distributed_lock]` comes first. The order of the others does not matter, and the span of `instrument` begins
/// when the lock is held:
///
/// ```
/// use axum::extract::Path;
/// use lock_axum::distributed_lock;
///
/// #[distributed_lock(resource = "stock:{sku}")]
/// #[axum::debug_handler]
/// #[tracing::instrument(skip_all)]
/// async fn deduct(Path(sku): Path<String>) -> String {
///     format!("deducting {sku}")
/// }
/// # axum::Router::<()>::new().route("/{sku}", axum::routing::post(deduct));
/// ```
///
/// # Testing
///
/// A guarded handler has one more parameter than it shows, so a test calls it as axum does: with a request. The manager of
/// the test keeps its locks in memory.
///
/// ```
/// use axum::body::Body;
/// use axum::extract::Path;
/// use axum::http::{Request, StatusCode};
/// use axum::routing::post;
/// use axum::{Extension, Router};
/// use lock_axum::{FencingToken, LockManager, distributed_lock};
/// use tower::ServiceExt as _;
///
/// #[distributed_lock(resource = "stock:{sku}")]
/// async fn deduct(Path(sku): Path<String>, token: FencingToken) -> StatusCode {
///     if write(&sku, token).await { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
/// }
///
/// /// Must run under the lock of the sku.
/// async fn write(sku: &str, token: FencingToken) -> bool {
///     println!("deducting {sku} with token {token}");
///     sku == "42"
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::in_memory();
/// let handler = Router::new().route("/{sku}", post(deduct)).layer(Extension(locks.clone()));
/// let response = handler.oneshot(Request::post("/7").body(Body::empty())?).await?;
/// assert_eq!(response.status(), StatusCode::NOT_FOUND);
///
/// // The work alone, without a request:
/// let written = locks.lock("stock:42").run(async |lease| write("42", lease.token()).await).await?;
/// assert!(written);
/// # Ok(())
/// # }
/// ```
///
/// As `write` shows, work that is to be tested without a request belongs in a function of its own, which takes what the
/// lock provides. The attribute generates no unguarded version of the handler that a service could call by mistake.
///
/// # Reference
///
#[doc(inline)]
pub use lock_macros::distributed_lock;
