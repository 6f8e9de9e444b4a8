use std::sync::Arc;

use http::request::Parts;
use lock_core::LockManager;
use lock_core::limits::MAX_SET_LEN;
use tower_layer::Layer;

use super::LockService;
use super::config::Config;
use super::resource::{OneSource, ResourceSource};
use super::template::Template;
use crate::key_error::KeyError;

/// Middleware that runs the inner service while a distributed lock is held.
///
/// For each request the layer determines the resource, buffers the request body, acquires the lock, and calls the inner
/// service. The lock is released in the background as soon as the inner service has responded.
///
/// - The body is buffered *before* the lock is acquired, so that a slow upload does not hold it. See
///   [`body_limit`](Self::body_limit), [`body_timeout`](Self::body_timeout) and [`stream_request_body`](Self::stream_request_body).
/// - [`Lease`](crate::Lease) and [`FencingToken`](crate::FencingToken) are inserted into the request extensions. Both
///   are extractors. The token is also inserted into the response extensions, for outer middleware such as access logs,
///   and so is that of a lock that was lost.
/// - If the lock is not acquired, or is lost, the response is a problem document. See
///   [HTTP responses](crate#http-responses).
///
/// The settings default to the [`LockManager`]'s. A setting that is out of range panics when the layer is built.
///
/// Apply the layer with `route_layer` of a `MethodRouter`, as in the example: `post(deduct).route_layer(layer)`. It then
/// runs only for the methods of that router. A `Router` does not know which methods its routes have, so with
/// `route_layer` or `layer` of a `Router`, a request with a wrong method also acquires the lock, or waits for it, and may
/// be answered with 409 instead of 405. Routes and methods that are added *after* the layer are not guarded, as with every layer of axum. A
/// handler that takes a [`Lease`](crate::Lease) or a [`FencingToken`](crate::FencingToken) fails closed there: it is answered with 500,
/// and never runs unguarded. Let every guarded handler take one. Routes of a `Router` that lack the path parameters of the template are
/// answered with 500; with `layer`, so is what would have been a 404.
///
/// # Without axum's Router
///
/// The layer takes any `tower` service of requests and responses whose bodies are of [`Bytes`](bytes::Bytes): a `service_fn`, a proxy, or a
/// gRPC server. A service that is not in a `Router` has no path parameters, so its resource comes from a header, the query, or
/// [`with_key`](Self::with_key). gRPC needs two settings more: [`stream_request_body`](Self::stream_request_body), unless all calls are
/// unary, and [`on_error`](Self::on_error), because its errors have the status 200 and are in the header `grpc-status`. With
/// [`hold_until_body_end`](Self::hold_until_body_end), the lock is held until the last message and the trailers have been sent. A lost lock
/// is answered with 500 all the same, which gRPC clients take for `UNKNOWN`. A server of tonic is one of the tests.
///
/// # Upgrades
///
/// When a handler answers with 101, or a `CONNECT` over HTTP/2 with 200, to begin a WebSocket for example, the lock is held until that answer, and not for the
/// session that follows. [`hold_until_session_end`](Self::hold_until_session_end) lets the handler take it along.
/// [`hold_until_body_end`](Self::hold_until_body_end) has no effect on an upgrade, which is logged once for each layer as
/// `lock.upgrade_not_held`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use axum::body::Body;
/// use axum::http::{Request, StatusCode};
/// use axum::{Router, routing::post};
/// use lock_axum::{FencingToken, LockLayer, LockManager};
/// use tower::ServiceExt as _;
///
/// async fn deduct(token: FencingToken) -> String {
///     format!("no other holder for this sku, token {token}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::in_memory();
/// let layer = LockLayer::new(locks.clone(), "stock:{sku}").wait(Duration::from_millis(100));
/// let app: Router = Router::new().route("/stock/{sku}/deduct", post(deduct).route_layer(layer));
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
#[derive(Clone)]
#[must_use = "a layer guards nothing before it is applied to a route"]
pub struct LockLayer(pub(super) Config);

impl LockLayer {
    /// Creates a layer that locks the resource given by a template.
    ///
    /// | Placeholder | Value |
    /// |---|---|
    /// | `{sku}` | a path parameter of the route; also a wildcard, `{*sku}` in the route |
    /// | `{header.x-tenant}` | a request header |
    /// | `{query.q}` | a parameter of the query string |
    ///
    /// In values every byte except `A-Za-z0-9-._~` is percent-encoded, so that a value such as `a:b` cannot forge
    /// another resource. Between two placeholders there must be a character that is encoded in values, such as `:` or
    /// `/`: with `{a}{b}`, the values `1` and `23` would give the same resource as `12` and `3`.
    ///
    /// Values are used as the client sent them. `/stock/7` and `/stock/07` are two resources, even if the handler
    /// parses both as the number 7. If different spellings mean the same thing, use [`with_key`](Self::with_key) or
    /// [`#[distributed_lock]`](macro@crate::distributed_lock), which locks by the extracted values.
    ///
    /// A header or query parameter that is missing or given more than once is answered with 400 `lock-key-invalid`. A
    /// path parameter that the route does not have is a mistake of the service: each request is answered with 500, and
    /// the first is logged as `lock.no_path_parameter`. So is one that the route has twice, because nested routers use the same name: it is
    /// logged as `lock.ambiguous_path_parameter`.
    ///
    /// # Panics
    ///
    /// If the template is invalid: empty, with an unbalanced brace, with an unknown placeholder, with two placeholders
    /// that nothing separates, with a control character, with more than 512 bytes of text, or with a placeholder in another syntax:
    /// `/:sku`, `*sku` or `${sku}`. Also if a placeholder has an invalid name: names of path parameters consist of letters, digits, `_`
    /// and `-`, names of headers are HTTP tokens, and names of query parameters contain no whitespace.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_axum::{LockLayer, LockManager};
    /// # let locks = LockManager::in_memory();
    /// let by_path = LockLayer::new(locks.clone(), "stock:{warehouse}/{sku}");
    /// let by_header = LockLayer::new(locks.clone(), "export:{header.x-tenant}");
    /// let by_query = LockLayer::new(locks.clone(), "search:{query.q}");
    /// let fixed = LockLayer::new(locks, "nightly-report");
    /// ```
    #[track_caller]
    pub fn new(locks: LockManager, template: impl AsRef<str>) -> Self {
        let template = template.as_ref();
        let source = OneSource::Template(Arc::new(parse(template)));
        let mut config = Config::new(locks, ResourceSource::One(source));
        config.policy.templates = vec![template.into()];
        Self(config)
    }

    /// Creates a layer that locks several resources at once, given by templates as in [`new`](Self::new): all of them or none.
    ///
    /// The handler finds [`Leases`](crate::Leases) instead of a `Lease` and a `FencingToken`, with a token for each
    /// resource, and so does outer middleware in the response extensions. [The guide](crate::guide::several_locks) says
    /// when one lock is better.
    ///
    /// # Panics
    ///
    /// If there are no templates, or more than 32, or one is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_axum::{Leases, LockLayer, LockManager};
    ///
    /// async fn order(leases: Leases) -> String {
    ///     format!("token {} for the article, {} for the user", leases[0].token(), leases[1].token())
    /// }
    ///
    /// let layer = LockLayer::new_all(LockManager::in_memory(), ["stock:{sku}", "user:{header.x-user}"]);
    /// # let _: axum::Router = axum::Router::new().route("/{sku}", axum::routing::post(order).route_layer(layer));
    /// ```
    #[track_caller]
    pub fn new_all<I>(locks: LockManager, templates: I) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let templates: Vec<_> = templates.into_iter().collect();
        let count = templates.len();
        assert!((1..=MAX_SET_LEN).contains(&count), "new_all takes between 1 and {MAX_SET_LEN} templates, got {count}");
        let texts = || templates.iter().map(AsRef::as_ref);
        let mut config = Config::new(locks, ResourceSource::Set(texts().map(parse).collect()));
        config.policy.templates = texts().map(Into::into).collect();
        Self(config)
    }

    /// Creates a layer that locks the resource returned by a function of the request's head.
    ///
    /// The resource is used as returned, without encoding. Encode values that come from the client with
    /// [`encode_value`](crate::encode_value), as the template of [`new`](Self::new) does: then they cannot forge another
    /// resource, and are the same lock as in a template. A resource has 1 to 512 bytes and contains neither control characters
    /// nor braces; anything else is answered with 400 `lock-key-invalid`, as is a [`KeyError`].
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::http::request::Parts;
    /// use lock_axum::{KeyError, LockLayer, LockManager, encode_value};
    ///
    /// let layer = LockLayer::with_key(LockManager::in_memory(), |parts: &Parts| {
    ///     let tenant = parts.headers.get("x-tenant").and_then(|value| value.to_str().ok());
    ///     match tenant {
    ///         Some(tenant) => Ok(format!("tenant:{}", encode_value(tenant.to_lowercase()))),
    ///         None => Err(KeyError::new("the header x-tenant is missing")),
    ///     }
    /// });
    /// ```
    pub fn with_key<F>(locks: LockManager, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        Self(Config::new(locks, ResourceSource::One(OneSource::Function(Arc::new(key)))))
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "as axum panics on an invalid route: both are mistakes in the program")]
fn parse(template: &str) -> Template {
    match Template::parse(template) {
        Ok(parsed) => parsed,
        Err(error) => panic!("invalid resource template {template:?}: {error}"),
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = LockService<S>;

    fn layer(&self, inner: S) -> LockService<S> {
        LockService::new(inner, Arc::new(self.0.clone()))
    }
}

lock_core::opaque_debug!(LockLayer, |this| "policy": this.0.policy);
