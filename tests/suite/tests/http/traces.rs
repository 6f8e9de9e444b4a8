//! The spans of guarded handlers, while the client is there and after it hung up.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::fence::StaleToken;
use lock_axum::{Lease, LockLayer, LockManager, distributed_lock};
use lock_support::http::{Counter, manager, nodes, request};
use lock_support::{Trace, Traces, eventually};
use tokio::sync::Notify;
use tower::ServiceExt as _;
use tracing::{Instrument as _, Level, info_span};

/// A handler that waits in the middle of its work.
#[derive(Clone, Default)]
struct Handler {
    started: Counter,
    go_on: Arc<Notify>,
}

impl Handler {
    async fn work(&self) {
        self.started.add();
        self.go_on.notified().await;
        tracing::info!(name: "worked", "the handler is done");
    }
}

#[distributed_lock(resource = "stock:{sku}")]
async fn by_attribute(axum::extract::Path(sku): axum::extract::Path<u8>, State(handler): State<Handler>) {
    _ = sku;
    handler.work().await;
}

async fn by_layer(State(handler): State<Handler>) {
    handler.work().await;
}

/// The same handler with the attribute and under the layer.
fn apps(locks: &LockManager) -> [(Router, Handler); 2] {
    let layer = LockLayer::new(locks.clone(), "stock:{sku}");
    [on_post(by_attribute), on_post(by_layer).route_layer(layer)].map(|route| {
        let handler = Handler::default();
        let app = Router::new().route("/{sku}", route).layer(Extension(locks.clone())).with_state(handler.clone());
        (app, handler)
    })
}

/// Sends a request, whose client hangs up when the future is dropped.
async fn call(app: Router) {
    let response = app.oneshot(request("/42").body(Body::empty()).unwrap()).await.unwrap();
    assert!(response.status().is_success());
}

/// The last span or event with this name.
fn last(traces: &Traces, name: &str) -> Trace {
    traces.named(name).pop().unwrap_or_else(|| panic!("no {name} in {:#?}", traces.all()))
}

#[tokio::test]
async fn the_spans_of_a_lock_are_in_the_requests_with_the_template() {
    let traces = Traces::record(Level::DEBUG);
    for (app, handler) in apps(&manager(&nodes())) {
        handler.go_on.notify_one();
        call(app).instrument(info_span!("request")).await;
        for name in ["lock.acquire", "lock.hold"] {
            let span = last(&traces, name);
            assert_eq!((span.parent, span.field("template")), (Some("request"), Some("stock:{sku}")));
            assert_eq!(span.field("resource"), Some("stock:42"));
            assert!(span.is_closed);
        }
        assert_eq!(last(&traces, "worked").parent, Some("request"), "the handler runs in the request's own span");
    }
}

#[tokio::test]
async fn the_span_of_a_hold_lasts_until_a_handler_has_ended_whose_client_hung_up() {
    let traces = Traces::record(Level::DEBUG);
    for (app, handler) in apps(&manager(&nodes())) {
        let request = call(app).instrument(info_span!("request"));
        tokio::select! {
            biased;
            () = request => unreachable!("the handler waits"),
            () = handler.started.reaches(1) => {}
        }
        let hold = last(&traces, "lock.hold");
        assert_eq!((hold.is_closed, hold.field("end")), (false, None), "the handler has not ended");
        handler.go_on.notify_one();
        eventually("the hold has ended", || last(&traces, "lock.hold").is_closed).await;
        let hold = last(&traces, "lock.hold");
        assert_eq!((hold.parent, hold.field("end")), (Some("request"), Some("released")));
        assert_eq!(last(&traces, "worked").parent, Some("request"));
        eventually("the request's span has ended", || last(&traces, "request").is_closed).await;
    }
}

mod orders {
    use axum::debug_handler;
    use axum::extract::Path;
    use lock_axum::{FencingToken, distributed_lock};
    use tracing::instrument;

    #[distributed_lock(resource = "stock:{sku}")]
    #[debug_handler]
    #[instrument(skip_all)]
    pub(super) async fn checked_first(Path(sku): Path<u8>, token: FencingToken) -> String {
        format!("{sku} {token}")
    }

    #[distributed_lock(resource = "stock:{sku}")]
    #[instrument(skip_all)]
    #[debug_handler]
    pub(super) async fn checked_last(Path(sku): Path<u8>, token: FencingToken) -> String {
        format!("{sku} {token}")
    }

    #[instrument(skip_all)]
    #[distributed_lock(resource = "stock:{sku}")]
    #[debug_handler]
    pub(super) async fn instrumented_above(Path(sku): Path<u8>, token: FencingToken) -> String {
        format!("{sku} {token}")
    }
}

#[tokio::test]
async fn a_handler_is_checked_and_instrumented_in_any_order_and_its_span_begins_under_the_lock() {
    let app = Router::new()
        .route("/checked_first/{sku}", on_post(orders::checked_first))
        .route("/checked_last/{sku}", on_post(orders::checked_last))
        .route("/instrumented_above/{sku}", on_post(orders::instrumented_above))
        .layer(Extension(manager(&nodes())));
    for name in ["checked_first", "checked_last", "instrumented_above"] {
        let traces = Traces::record(Level::DEBUG);
        let request = request(&format!("/{name}/42")).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).instrument(info_span!("request")).await.unwrap();
        assert!(response.status().is_success());
        let spans = traces.all().into_iter().filter(|trace| trace.parent == Some("request"));
        assert_eq!(spans.map(|span| span.name).collect::<Vec<_>>(), ["lock.acquire", "lock.hold", name]);
    }
}

#[distributed_lock(resource = "secret:{sku}", wait = "0s", max_hold = "50ms")]
async fn outlived(axum::extract::Path(sku): axum::extract::Path<String>) {
    _ = sku;
    std::future::pending::<()>().await;
}

#[distributed_lock(resource = "secret:{sku}", ttl = "1h")]
async fn misconfigured(axum::extract::Path(sku): axum::extract::Path<String>) {
    _ = sku;
}

#[distributed_lock(resource = "secret:{sku}")]
async fn refused(axum::extract::Path(sku): axum::extract::Path<String>, lease: Lease) -> StaleToken {
    _ = sku;
    StaleToken::report("sqlite", &lease, None)
}

#[tokio::test]
async fn neither_an_error_response_nor_an_event_names_the_resource_if_names_are_redacted() {
    let nodes = nodes();
    let locks = LockManager::builder().nodes(nodes.clone()).redact(true).connect().await.unwrap();
    let traces = Traces::record(Level::TRACE);
    let keyed = LockLayer::with_key(locks.clone(), |_| Ok("secret{}".to_owned()));
    let app = Router::new()
        .route("/outlived/{sku}", on_post(outlived))
        .route("/misconfigured/{sku}", on_post(misconfigured))
        .route("/refused/{sku}", on_post(refused))
        .route("/invalid", on_post(async || ()).route_layer(keyed))
        .layer(Extension(locks.clone()));
    let held = locks.lock("secret:held").acquire().await.unwrap();
    let cases = [
        ("/outlived/42", 500),
        ("/outlived/held", 409),
        ("/misconfigured/42", 500),
        ("/refused/42", 409),
        ("/invalid", 400),
        ("/outlived/43", 503),
    ];
    for (path, status) in cases {
        if status == 503 {
            nodes.iter().for_each(|node| node.set_down(true));
        }
        let response = app.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("title") && !body.contains("secret"), "{body}");
    }
    drop(held);
    for name in ["lock.lost", "lock.misconfigured", "lock.stale_token", "lock.acquire"] {
        assert_ne!(traces.named(name), [], "{name}");
    }
    let tells = |trace: &Trace| trace.fields.values().any(|value| value.contains("secret") && value != "secret:{sku}");
    assert_eq!(traces.all().into_iter().find(tells), None);
}
