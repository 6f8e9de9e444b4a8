//! The attribute macro `#[distributed_lock]` of [`lock-axum`](https://docs.rs/lock-axum).
//!
//! Depend on `lock-axum`, which re-exports the macro and documents it with examples: the generated code calls that
//! crate.
//!
//! An expansion has four stages, run by `attribute`: `args` parses the arguments, `function` the function, `validate`
//! checks them, and `expand` generates the code. Each stage reports every mistake that it finds, at the token that
//! caused it.

mod args;
mod attribute;
mod diagnostics;
mod expand;
mod function;
mod limits;
mod validate;

use proc_macro::TokenStream;

/// Acquires a distributed lock before the body of an `async fn` runs, and releases it in the background after the body
/// has ended.
///
/// # Arguments
///
/// Either `resource` or `key` is required. The manager's settings apply where the default is "the manager's".
///
/// | Argument | Meaning and range | Default |
/// |---|---|---|
/// | `resource = "stock:{sku}"` | Template of the [resource](#resource). | |
/// | `resource = ["stock:{sku}", "user:{id}"]` | Templates of [several resources](#several-resources), 1 to 32. | |
/// | `key = expr` | Expression for the [resource](#resource), `Into<String>`. | |
/// | `ttl = "10s"` | Time to live: how long the lock outlives a holder that crashed. From 100 ms to the manager's `max_ttl`, which is at most one day. | the manager's |
/// | `wait = "2s"` | The longest time to wait for the lock. From 0 (try once) to one day. | the manager's |
/// | `max_hold = "1m"` | The longest time to hold the lock, renewals included. After it, the lease is lost. From 1 ms to 7 days. | the manager's |
/// | `renew = true` | Whether the lock is renewed while the body runs. | the manager's |
/// | `hold = "body"` | Handlers only. Until when the lock is held: `"body"` until the response's body has been sent, `"session"` until the [session](#sessions) has ended that follows the answer. | until the handler has answered |
/// | `adopt = true` | Handlers only. Whether a request that carries a [delegation](#delegations) runs under that, and not under a lock of its own. | `false` |
/// | `mode = "write"` | `"read"` runs beside others that read, and beside none that writes; `"write"` runs alone. | `"write"` |
/// | `permits = 3` | How many may hold the resource at once, each with a slot and a token of its own: from 1 to 100. | a lock, with one holder |
/// | `on_lost = "cancel"` | What happens to the body when the lease is lost: `"cancel"` drops it at its current `.await`, `"continue"` lets it finish, and replaces a response with a status below 400. | `"cancel"` |
/// | `on_disconnect = "finish"` | Handlers only. What happens to the body when the client disconnects: `"finish"` moves it to a task of its own, where it finishes with the lock held, `"cancel"` drops it. | `"finish"` |
/// | `busy_status = 409` | Handlers only. The status when another holder has the lock: 409, 423, 429 or 503. | 409 |
/// | `retry_after = "1s"` | Handlers only. The header `Retry-After` of the responses that have one: whole seconds, from 1 s to 1 h. | `"1s"` |
/// | `body_timeout = "30s"` | Handlers only. How long the request body may take to arrive before the lock is acquired: from 1 ms to one day. Then the response is 408. | `"30s"` |
/// | `on_error = path` | Handlers only. A `fn(LockError) -> impl IntoResponse`, not `async`, that answers lock errors instead of the problem document. | |
/// | `state` | Handlers only, without a value. The lock manager comes from the [router's state](#handlers). | |
/// | `manager = expr` | The lock manager, for [functions that are not handlers](#functions-and-methods). | |
/// | `crate = path` | The path of `lock_axum`, if it is renamed or re-exported: without it, rustc cannot find `lock_axum`. | `::lock_axum` |
///
/// Durations are strings in the format of [`humantime`](https://docs.rs/humantime): `"500ms"`, `"10s"`, `"1m 30s"`.
/// Their ranges, the names of arguments and the placeholders are checked at compile time; only the manager's `max_ttl`
/// is checked at run time.
///
/// # Resource
///
/// In `resource`, a placeholder names a binding in a parameter's pattern, or a field of one: `{sku}`, `{order.sku}`,
/// `{pair.0}`, and in methods `{self.name}`. The value must implement `Display`. In values every byte except
/// `A-Za-z0-9-._~` is percent-encoded, so that a value such as `a:b` cannot forge another resource. Between two
/// placeholders there must be a character that is encoded in values, such as `:` or `/`: with `{a}{b}` or `{a}-{b}`,
/// different values could give the same resource, so they are compile errors.
///
/// `key` is for everything else. The value is used as it is, without encoding: `key = format!("stock:{sku}")` is not the
/// lock of `resource = "stock:{sku}"` if the sku is `a b`. Encode the values with `lock_axum::encode_value`, as in
/// `key = format!("stock:{}", encode_value(sku))`. In a handler, the bindings in the
/// expression are references; in a function they are the parameters themselves.
///
/// The resource must have 1 to 512 bytes and contain neither control characters nor braces. A handler answers any other
/// with 400 `lock-key-invalid`; a function returns `LockError::InvalidResource`.
///
/// # Several resources
///
/// With a list, the locks on all resources are acquired, or none, with one `wait` for all. However the lists of two functions
/// are written, they do not wait for each other in a circle. A handler takes `Leases` instead of `Lease` and
/// `FencingToken`: it has a lease with a token for each resource, in the order of the list. In a function,
/// `Lease::current_for(resource)` returns each of them. The loss of one is the loss of all. `hold = "session"` is for one
/// resource.
///
/// # Handlers
///
/// Without `manager`, the function is an axum handler. The manager comes from the request extensions: add
/// `.layer(Extension(locks))` to the router. Without it, the response is 500 and the body does not run. With `state`, the
/// manager comes from the router's state instead: implement `FromRef` for `LockManager`, or derive it for the state. Whether
/// the state has a manager is checked at compile time. `impl FromRef<Arc<App>> for LockManager` breaks the orphan rule
/// (E0117): make the state a struct of your own with the `Arc` and the manager, as in the example, or use `Extension`.
///
/// - The extractors run first, which includes reading the body. Then the resource is built and the lock is acquired.
///   The body runs, and its output is converted into a response, while the lock is held. A `Request` or `Body`
///   parameter is not read before: the handler reads it while it holds the lock.
/// - What the extractors read of the body is in memory while the handler waits for the lock, and counts against the
///   manager's `max_buffered_bytes`. A request that exceeds it is answered with 503 `lock-buffer-full`; with 413 if its body alone does,
///   or with 408 if it is slow and has to make room for a faster one. axum's `DefaultBodyLimit` limits each body.
/// - Parameters of the types `Lease` and `FencingToken`, in any position, are not extracted but provided by the lock,
///   also inside `Extension<…>` or `Option<…>`. They cannot be part of the resource. The macro recognizes the types by
///   the last segment of their path. Under another name, such as a type alias, or inside another type, such as
///   `Result<Lease, _>`, `Extension<Arc<Lease>>` or a tuple, they are compile errors.
/// - A parameter of type `Request` or `Parts`, also under another name, has the lease and the token in its extensions when
///   the body runs, so that a service to which the handler forwards it finds them. A type that contains a request has
///   not: insert them before you forward it.
/// - An extractor of your own runs before the lock is acquired. If it extracts `Lease`, `FencingToken` or an `Option` of
///   them, that is rejected with 500, and the event `lock.not_guarded` says what to do. An extractor may swallow the
///   rejection, as axum's derive does for a field `Option<Lease>`: then the event is all there is, and the handler gets
///   `None`. Take the lease as a parameter of the handler and pass it on, or put a `LockLayer` around the handler:
///   extractors see the lease of the layer, and the handler's parameters come from the attribute's lock. What looks
///   into the extensions without these extractors, such as a field `Option<Extension<Lease>>`, just finds no lease.
/// - The lock is held until the handler has answered. With `hold = "body"`, it is held until the response's body has been
///   sent: a body that is streamed runs in the scope of the lock, and ends with an error if the lease is lost. The answer to `HEAD` and
///   an empty body release at once. After an upgrade, such as that to a WebSocket (101, or a `CONNECT` over HTTP/2), nothing is held,
///   except in a [session](#sessions).
/// - For callers, the function is `async fn(…) -> Result<Response, LockRejection>` with one additional parameter. axum
///   allows 16 parameters, so 15 extractors are left. The last extractor has another type, so that what it reads is
///   counted, unless it is a `Path`, `Query`, `State`, `Extension`, `HeaderMap`, `Request`, `Parts` or `Body`; state the
///   `request_body` in `#[utoipa::path]`, which cannot infer it. The declared return type may be anything that implements
///   `IntoResponse`. A recursive call in the body calls the function without the lock.
/// - Parameters are owned values of a type that the route knows: neither `&str` nor `impl Trait`. Type parameters need
///   the bounds that axum requires of a handler, such as `Send + 'static`.
/// - The handler is nested in a generated function. If it is an associated function, it can name neither `Self` nor the
///   type parameters of its `impl` (E0401). Write the type instead of `Self`, and give the handler type parameters of its
///   own, which the route names: `post(Shop::deduct::<Stock>)`.
///
/// # What runs under the lock
///
/// - When the lock is lost, the body is dropped. A task that it has spawned is not: `tokio::spawn(work).await` leaves `work` running
///   without the lock. Spawn into a `JoinSet` that the body owns, which aborts its tasks when it is dropped, and run what they do in
///   `lease.scope(…)`.
/// - Inside the scope of a lock, acquiring it again is the same lock. So two guarded calls that are joined inside one handler
///   (`tokio::join!`) run at once, under one lease and with one token: they exclude other requests, and not each other.
///
/// # Sessions
///
/// With `hold = "session"`, a parameter of type `Hold` takes the lock along into what follows the answer, such as the
/// session of a WebSocket: `ws.on_upgrade(move |socket| hold.run(async |lease| chat(socket, lease).await))`. The lock is
/// released when the handler has answered and the session has ended, or the `Hold` was dropped. If the lease is lost, the
/// session's future is dropped, and its socket with it.
///
/// - The parameter is required, and there is one. It is recognized by the last segment of its path, as `Lease` is.
/// - `max_hold` is required: the manager's is for requests, and would cut sessions.
/// - The session has to begin within 10 seconds of the end of the handler, or the lock is released.
/// - `on_lost = "continue"` lets the session go on after a loss. `on_disconnect` is about the handler alone: what becomes
///   of a session whose client is gone is for the session to decide.
///
/// # Delegations
///
/// With `adopt = true`, a request with the header `lock-delegation` runs under the lock of the service that sent it, with that service's
/// token: nothing is acquired, and `ttl`, `wait`, `max_hold` and `renew` are the sender's. A request without the header acquires the lock.
/// A delegation that is not valid, or for another resource than the request, is answered with 403 `lock-delegation-refused`, and
/// the body does not run. It cannot be combined with `hold = "session"`, because the answer tells the sender that the work is done.
///
/// # Functions and methods
///
/// With `manager = expr`, the attribute guards any `async fn` that has a body: free functions, methods with every kind
/// of receiver, and methods in traits and their implementations, with generics, lifetimes and `impl Trait`.
///
/// - The signature stays as it is. It must return `Result<_, E>`, or an alias of it, where `E: From<LockError>`.
/// - The parameters are in scope in the expression. It is borrowed, and the manager is cloned: `self.locks`,
///   `state.locks()`, or `locks` for a parameter of type `&LockManager`. It has to be the manager of all calls. One that is made for each
///   call excludes no other call: `LockManager::in_memory()` in the expression is a compile error, and a manager that a function makes and
///   gives away is logged as `lock.manager_dropped`.
/// - The body gets its lease from `Lease::current()`. A parameter of type `Lease` is an ordinary parameter, which callers
///   pass. A router cannot: next to extractors, such as `Path(sku): Path<String>`, a parameter `Lease` or `FencingToken`
///   is a compile error, also inside `Option`, `Result` or `Extension`. Inside those, it is also an error without
///   extractors, except in a function that cannot be a handler: a method, or one with a parameter that is a reference or
///   a `LockManager`.
/// - Parameters are dropped before the lock is released. Exceptions are values without a name (`_`, or covered by `..`
///   in a pattern), those that `key` names, as far as the body does not use them, and those that nothing names.
/// - `state`, `hold`, `adopt`, `on_disconnect`, `busy_status`, `retry_after`, `body_timeout` and `on_error` are compile errors, because there is no request.
///
/// # Cancel safety
///
/// If the function's future is dropped before the lock is acquired, no lock is left behind. After that, a handler runs
/// to its end or is dropped, as `on_disconnect` of its outermost lock says; the body of a function is dropped. The lock
/// is released after the body has ended. A handler that is dropped by something between two locks, such as a timeout
/// middleware inside a `LockLayer`, does not run to its end: it never outlives the outer lock.
///
/// # Errors
///
/// A handler answers lock errors with a `LockRejection`, or with the response of `on_error`. A function returns them to
/// its caller, converted from `LockError`. If the lease was lost, neither reports success: a handler's response with a
/// status below 400, which includes redirects, and a function's `Ok` are replaced by the error.
///
/// # Other attributes
///
/// Put `#[distributed_lock]` above all other attributes.
///
/// - On a handler, `#[debug_handler]`, `#[utoipa::path]`, docs, lint levels, `#[deprecated]` and `#[must_use]` move to
///   the function that axum calls. All others, such as `#[tracing::instrument]`, stay with the declared parameters and
///   the body, so the span of `instrument` begins when the lock is held. They may follow each other in any order, and
///   `instrument` may even stand above, to the same effect. A function with `manager` stays a single
///   function, and the span includes the wait for the lock.
/// - A function with `manager` can have two `#[distributed_lock]` attributes. The lock of the lower one is acquired
///   first. If callers acquire the same two locks in different orders, they wait for each other until one of them gives
///   up.
/// - `#[debug_handler]` below `state` has to know the router's state: from a parameter `State<App>`, or from
///   `#[debug_handler(state = App)]`.
/// - An extractor that reads a whole session, and a layer that writes it when the handler has returned, as those of tower-sessions, do so
///   outside of this lock. Lock the session with a `LockLayer` outside of that layer: see `examples/carts`.
/// - `#[debug_handler]` *above* the attribute fails to compile with E0061 ("this function takes 2 arguments but 1
///   argument was supplied"): it checks a call without the additional parameter.
/// - `#[async_trait]` on an `impl` rewrites the methods before their attributes are expanded, and leaves no `async fn`.
///   Apply the attribute to an inherent method that the trait's method calls, or use native `async fn` in the trait.
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand(arguments.into(), item.into()).into()
}
