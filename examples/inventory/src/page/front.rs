use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, header},
    response::Html,
    routing::{any, get},
};

use super::{
    access::Access,
    controls,
    live::{Live, events},
    proxy::{Proxy, forward},
};

/// The page has its style and its script in itself, talks to its own service, and is in no frame.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
         img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// The routes of the public listener.
pub(crate) fn router(live: Arc<Live>, access: Access, proxy: Proxy) -> Router {
    let shop = Router::new().route("/stock/{*rest}", any(forward)).route("/readyz", any(forward)).with_state(proxy);
    Router::new()
        .route("/", get(async || (HEADERS, Html(include_str!("page.html")))))
        .route("/events", get(events))
        .with_state(Arc::clone(&live))
        .nest("/control", controls::routes(live, access))
        .merge(shop)
}
