//! Carts in sessions of tower-sessions, with `#[debug_handler]` and `#[instrument]`.
//!
//! ```text
//! cargo run -p carts
//! curl -c jar -X POST http://127.0.0.1:3000/log-in/ada
//! curl -b jar -X POST http://127.0.0.1:3000/cart/apple
//! ```
//!
//! A session is read once in a request, and written as a whole when the handler has returned. So of two requests at once, as of a browser
//! with two tabs, the later one overwrites what the other one put into the cart. The lock of the session stands *outside* of the layer of the
//! sessions: it is held from before the session is read until it is written. The attribute of the handler would be inside.

use std::error::Error;
use std::time::Duration;

use axum::extract::{FromRef, Path};
use axum::http::{StatusCode, header::COOKIE, request::Parts};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use lock_axum::{KeyError, Lease, LockLayer, LockManager, distributed_lock, encode_value};
use tower::ServiceBuilder;
use tower_sessions::cookie::Cookie;
use tower_sessions::{MemoryStore, Session, SessionManagerLayer, SessionStore, session};
use tracing::{info, instrument};

/// The state of the router.
#[derive(Clone, FromRef)]
struct App {
    locks: LockManager,
}

/// Reserves an article, and puts it into the cart.
///
/// `debug_handler` checks the handler that axum calls. The span of `instrument` begins when the lock of the article is held.
#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s", state)]
#[debug_handler(state = App)]
#[instrument(skip(session, lease), fields(token = lease.token().get()))]
async fn add(session: Session, Path(sku): Path<String>, lease: Lease) -> Result<Json<Vec<String>>, Failed> {
    // A shop reserves it here, in a transaction that claims the token first: see `examples/inventory`.
    let mut cart: Vec<String> = session.get("cart").await?.unwrap_or_default();
    cart.push(sku);
    session.insert("cart", &cart).await?;
    info!(items = cart.len(), "added");
    Ok(Json(cart))
}

async fn log_in(session: Session, Path(customer): Path<String>) -> Result<(), Failed> {
    session.insert("customer", customer).await?;
    Ok(())
}

/// What a request locks: its session, by the value of the cookie.
///
/// The cookies are read as tower-sessions reads them: a session that has several names has several locks.
fn session_of(parts: &Parts) -> Result<String, KeyError> {
    let headers = parts.headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    let mut ids = headers.flat_map(Cookie::split_parse_encoded).flatten().filter(|cookie| cookie.name() == "id");
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(format!("session:{}", encode_value(id.value()))),
        _ => Err(KeyError::new("one cookie `id` is needed: log in first")),
    }
}

/// A session that cannot be read or written.
struct Failed(session::Error);

impl From<session::Error> for Failed {
    fn from(error: session::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

fn app(locks: LockManager, store: impl SessionStore + Clone) -> Router {
    // Not `secure`, as this example has no TLS.
    let sessions = SessionManagerLayer::new(store).with_secure(false);
    let one_at_a_time = LockLayer::with_key(locks.clone(), session_of);
    Router::new()
        .route("/log-in/{customer}", post(log_in).layer(sessions.clone()))
        // The first of a builder stands outside.
        .route("/cart/{sku}", post(add).layer(ServiceBuilder::new().layer(one_at_a_time).layer(sessions)))
        .with_state(App { locks })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let locks = LockManager::in_memory();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let serving = axum::serve(listener, app(locks.clone(), MemoryStore::default()));
    serving.with_graceful_shutdown(locks.close_on(stop_signal())).await?;
    locks.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// Completes on Ctrl-C and, on Unix, on SIGTERM.
async fn stop_signal() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = terminated => {} }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use axum::body::Body;
    use axum::http::{Request, Response, header};
    use futures_util::future::join_all;
    use http_body_util::BodyExt as _;
    use lock_support::{Traces, keep_two_subscribers};
    use tower::ServiceExt as _;
    use tower_sessions::session::{Id, Record};
    use tower_sessions::session_store;
    use tracing::Level;

    use super::*;

    /// A store that lets other requests go on before it writes.
    #[derive(Clone, Debug, Default)]
    struct Slow(MemoryStore);

    #[async_trait]
    impl SessionStore for Slow {
        async fn save(&self, record: &Record) -> session_store::Result<()> {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.0.save(record).await
        }

        async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
            self.0.load(id).await
        }

        async fn delete(&self, id: &Id) -> session_store::Result<()> {
            self.0.delete(id).await
        }
    }

    fn service() -> Router {
        keep_two_subscribers();
        app(LockManager::in_memory(), Slow::default())
    }

    async fn post(app: &Router, path: &str, cookie: &str) -> Response<Body> {
        let request = Request::post(path).header(header::COOKIE, cookie).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap()
    }

    /// Logs in. Returns the cookie.
    async fn logged_in(app: &Router) -> String {
        let response = post(app, "/log-in/ada", "").await;
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn no_request_overwrites_what_another_one_put_into_the_cart() {
        let app = service();
        let cookie = logged_in(&app).await;
        let paths: Vec<String> = (0..20).map(|item| format!("/cart/item-{item}")).collect();
        // All of these name one session.
        let id = cookie.strip_prefix("id=").unwrap();
        let encoded = format!("%{:02X}{}", id.as_bytes()[0], &id[1..]);
        let cookies =
            [cookie.clone(), format!("theme=dark;{cookie}"), format!("id={encoded}"), format!("{cookie};a=1")];
        let requests = paths.iter().zip(cookies.iter().cycle());
        for response in join_all(requests.map(|(path, cookies)| post(&app, path, cookies))).await {
            assert_eq!(response.status(), StatusCode::OK);
        }
        let response = post(&app, "/cart/last", &cookie).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut cart: Vec<String> = serde_json::from_slice(&body).unwrap();
        cart.sort();
        let mut all: Vec<String> = paths.iter().map(|path| path.replace("/cart/", "")).collect();
        all.push("last".into());
        all.sort();
        assert_eq!(cart, all);
    }

    #[tokio::test]
    async fn a_request_without_a_session_is_refused() {
        let app = service();
        for cookies in ["", "other=1", "id=1; id=2", "id=1;id=2"] {
            assert_eq!(post(&app, "/cart/apple", cookies).await.status(), StatusCode::BAD_REQUEST, "{cookies}");
        }
    }

    #[tokio::test]
    async fn the_span_of_the_handler_has_the_token() {
        let traces = Traces::record(Level::INFO);
        let app = service();
        let cookie = logged_in(&app).await;
        post(&app, "/cart/apple", &cookie).await;
        let spans = traces.named("add");
        assert_eq!(spans.len(), 1, "{:?}", traces.all());
        assert_eq!(spans[0].field("sku"), Some("\"apple\""));
        assert!(spans[0].field("token").is_some_and(|token| token.parse::<u64>().is_ok_and(|token| token > 0)));
    }
}
