//! `#[distributed_lock]`, the attribute of [`lock-axum`](https://docs.rs/lock-axum), which re-exports it: services depend
//! on that crate, not on this one. What is written where is described at [`macro@distributed_lock`].
//!
//! An expansion has four stages, run by `attribute`: `args` parses the arguments, `function` the function, `validate` checks
//! them, and `expand` generates the code. Each stage reports every mistake that it finds, at the token that caused it.

mod args;
mod attribute;
mod diagnostics;
mod expand;
mod function;
mod validate;

use proc_macro::TokenStream;

/// Runs an axum handler, or any async function, for one holder at a time across every instance of the service.
///
/// ```ignore
/// use lock_axum::{Lease, distributed_lock};
///
/// #[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
/// async fn deduct(Path(sku): Path<String>, lease: Lease, Json(order): Json<Order>) -> Result<Json<Receipt>, ShopError> {
///     // Runs alone for this sku; `lease.token()` fences every write.
/// }
///
/// let app = Router::new().route("/stock/{sku}/deduct", post(deduct)).layer(Extension(locks));
/// ```
///
/// # Arguments
///
/// Exactly one of `resource` and `key` is required. What else is not written is as the lock manager was built.
///
/// | Argument | Value | Default |
/// |---|---|---|
/// | `resource = "stock:{sku}"` | a template, see [below](#the-resource) | |
/// | `key = expr` | an expression that is `Into<String>`, see [below](#the-resource) | |
/// | `ttl = "10s"` | how long the lock outlives a crashed holder: 100 ms to the manager's `max_ttl`, at most a day | the manager's |
/// | `wait = "2s"` | how long to wait for another holder: 0 (try once) to a day | the manager's |
/// | `max_hold = "1m"` | how long renewal may keep the lock: 1 ms to 7 days | the manager's |
/// | `renew = true` | whether the lock is renewed while the body runs | the manager's, `true` |
/// | `on_lost = "cancel"` | `"cancel"` ends the body at its next await when the lease is lost, `"continue"` lets it finish | `"cancel"` |
/// | `on_disconnect = "finish"` | for handlers: `"finish"` lets the body run on, lock held, when the client hangs up, `"cancel"` drops it | `"finish"` |
/// | `busy_status = 409` | for handlers: the status when another holder has the lock: 409, 423, 429, 503 | 409 |
/// | `on_error = path` | for handlers: a `fn(LockError) -> impl IntoResponse` that answers instead of `application/problem+json` | |
/// | `manager = expr` | the lock manager, for [functions that are no handlers](#functions-and-methods) | |
/// | `crate = path` | where `lock_axum` is, if it is re-exported or renamed | `::lock_axum` |
///
/// Durations are strings as [`humantime`](https://docs.rs/humantime) reads them: `"500ms"`, `"10s"`, `"1m 30s"`. They are
/// checked while compiling, as are the names of all arguments and placeholders.
///
/// # The resource
///
/// In `resource` a placeholder is a binding of the parameters' patterns, or a field of one: `{sku}`, `{order.sku}`,
/// `{pair.0}`, and in methods `{self.name}`. Its value must implement `Display`. In values every byte outside
/// `A-Za-z0-9-._~` is written as `%XX`; the text around them is used as it is. So put something between two placeholders
/// that no value can contain, such as `:` or `/`: `{a}{b}` can not tell `1` and `23` from `12` and `3`.
///
/// `key` is for all that a template can not say. In a handler the bindings are references there; in a function they are
/// what they are in its body. Nothing is escaped.
///
/// ```ignore
/// #[distributed_lock(key = format!("stock:{}", sku.to_lowercase()))]
/// async fn deduct(Path(sku): Path<String>) -> StatusCode {
///     // The lock of `ABC-1` is that of `abc-1`.
/// }
/// ```
///
/// The name as a whole must have 1 to 512 bytes and neither control characters nor braces.
///
/// # Handlers
///
/// Without `manager` the function is an axum handler, and the manager comes from the request's extensions
/// (`.layer(Extension(locks))`; without it the answer is 500 and the body does not run). It becomes two functions: an outer
/// one that axum calls, and the written one inside it.
///
/// - The extractors run first, then the resource is named, and then the lock is taken. The body runs, and its answer is
///   converted with `IntoResponse`, while the lock is held.
/// - Parameters whose type is named `Lease` or `FencingToken` (the last segment of its path), also inside `Extension<…>` or `Option<…>`,
///   are filled by the lock, wherever they stand. They can not stand in the resource.
/// - A parameter whose type is named `Request` or `Parts` carries both in its extensions when the body runs.
/// - The function seen from outside is `async fn(…) -> Result<Response, LockRejection>` with one parameter more, so axum's
///   limit of 16 is 15 here. The written return type can be anything that implements `IntoResponse`. A call of the function
///   by its name from within its own body means the written one: it takes no second lock.
/// - Type parameters need what axum asks of a handler, written out: `Send + 'static`.
///
/// # Functions and methods
///
/// With `manager = expr` the attribute guards any `async fn` with a body: methods with every kind of receiver, in traits and
/// their implementations, with generics, lifetimes and `impl Trait`.
///
/// ```ignore
/// impl Shop {
///     #[distributed_lock(resource = "stock:{sku}", manager = self.locks)]
///     async fn deduct(&self, sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
///         let token = Lease::current().map(|lease| lease.token());
///         // …
///     }
/// }
/// ```
///
/// - The signature stays as it is. It must return `Result<_, E>` (or an alias of it) with `E: From<LockError>`.
/// - The expression sees the parameters, and is borrowed and cloned: `self.locks`, `state.locks()`, `locks` for a
///   `&LockManager`.
/// - Parameters are dropped under the lock, as the body's own. Not so what has no name (`_`, or behind `..` in a pattern), or is
///   named by `key` alone.
/// - Parameters of type `Lease` are ordinary ones here. The body gets its own lease from `Lease::current()`.
/// - `on_disconnect`, `busy_status` and `on_error` are errors: there is no request here.
///
/// # Other attributes
///
/// Put `#[distributed_lock]` above all others.
///
/// - `#[debug_handler]` and `#[utoipa::path]` below it move to the function that axum sees, with docs, lint levels,
///   `#[deprecated]` and `#[must_use]`. All others, such as `#[tracing::instrument]`, stay with the written parameters and
///   body; so in a handler the span of `instrument` begins when the lock is held. A function with `manager` is one function:
///   there the span includes the wait.
/// - Of two `#[distributed_lock]` on one function with `manager`, the lower lock is taken first. Wherever two locks are needed,
///   all callers must take them in the same order, or they wait for each other until one gives up.
/// - `#[debug_handler]` *above* it fails to compile with rustc's E0061 ("this function takes 2 arguments but 1 argument was
///   supplied"), since it checks a call of a function that has got one parameter more meanwhile.
/// - `#[async_trait]` on an `impl` is expanded before any attribute inside, and leaves a function that is not `async`. Guard
///   an inherent method that the trait's method calls, or use native `async fn` in the trait.
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand(arguments.into(), item.into()).into()
}
