//! The attribute causes no warning where every warning is denied.
#![deny(warnings, let_underscore_drop, missing_docs, unused, unreachable_pub, rust_2018_idioms, unused_qualifications)]
#![deny(unused_results, unused_lifetimes, single_use_lifetimes, unit_bindings, non_ascii_idents, trivial_casts)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(unsafe_code)]

pub use service::{Service, at_once, deduct, many, stream};

/// The service.
pub mod service {
    use axum::Json;
    use axum::extract::{Path, Query, Request, State};
    use axum::response::IntoResponse;
    use lock_axum::{FencingToken, Lease, LockError, LockManager, LockRejection, distributed_lock};

    /// The state.
    #[derive(Clone, Debug)]
    pub struct Service {
        locks: LockManager,
        name: String,
    }

    /// Documented.
    #[distributed_lock(
        resource = "stock:{sku}",
        ttl = "10s",
        wait = "2s",
        max_hold = "1m",
        renew = true,
        on_lost = "continue",
        on_disconnect = "cancel",
        busy_status = 423,
        on_error = respond
    )]
    pub async fn deduct(Path(sku): Path<String>, lease: Lease, Json(quantity): Json<u32>) -> impl IntoResponse {
        const FACTOR: u32 = 2;
        format!("{sku} {} {:?}", FACTOR * quantity, lease.token())
    }

    #[allow(clippy::needless_pass_by_value)]
    fn respond(error: LockError) -> String {
        error.to_string()
    }

    /// Seven parameters, the most that clippy allows.
    #[distributed_lock(resource = "{a}:{b}")]
    pub async fn many(
        Path((a, b)): Path<(u8, u8)>,
        State(service): State<Service>,
        Query(query): Query<Vec<(String, String)>>,
        token: FencingToken,
        method: axum::http::Method,
        uri: axum::http::Uri,
        body: String,
    ) -> String {
        format!("{service:?} {query:?} {token:?} {method} {uri} {body}")
    }

    /// Forwards the request.
    #[distributed_lock(key = request.uri().path())]
    #[allow(clippy::needless_pass_by_value)]
    pub async fn stream(request: Request) -> String {
        request.uri().to_string()
    }

    /// Attributes that describe the function move to the outer one, which callers see.
    #[distributed_lock(resource = "old")]
    #[deprecated]
    pub async fn obsolete() -> &'static str {
        "old"
    }

    /// A handler with `manager`.
    ///
    /// # Errors
    ///
    /// If the lock cannot be acquired.
    #[distributed_lock(resource = "{sku}", manager = service.locks)]
    pub async fn at_once(
        State(service): State<Service>,
        Path(sku): Path<String>,
        Query(query): Query<Vec<(String, String)>>,
    ) -> Result<String, LockRejection> {
        Ok(format!("{service:?} {sku} {query:?}"))
    }

    #[rustfmt::skip]
    #[distributed_lock(resource = "{id}")]
    pub(crate) async fn one_line(Path(id): Path<u8>) -> String { id.to_string() }

    impl Service {
        #[rustfmt::skip]
        #[distributed_lock(resource = "{id}", manager = self.locks)]
        pub(crate) async fn one_line(&self, id: u8) -> Result<u8, LockError> { Ok(id) }

        /// Guarded.
        ///
        /// # Errors
        ///
        /// If the lock cannot be acquired.
        #[distributed_lock(resource = "{self.name}:{sku}", ttl = "1s", manager = self.locks)]
        pub async fn method(&self, sku: &str) -> Result<usize, LockError> {
            const FACTOR: usize = 2;
            if sku.is_empty() {
                return Ok(0);
            }
            Ok(FACTOR * std::future::ready(sku.len()).await)
        }
    }
}

fn main() {
    let _ = Service::one_line;
    let _router = axum::Router::new()
        .route("/a/{sku}", axum::routing::post(deduct))
        .route("/b/{a}/{b}", axum::routing::post(many))
        .route("/c", axum::routing::post(stream))
        .route("/d/{id}", axum::routing::post(service::one_line))
        .route("/e/{sku}", axum::routing::post(at_once));
}
