//! `#[distributed_lock]` on axum handlers, over real connections.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post as on_post;
use axum::{Extension, Json, Router};
use lock_axum::{FencingToken, Lease, LockError, LockLayer, distributed_lock};
use lock_support::http::{Counter, is_free, manager, nodes, post, request, send, serve};
use lock_support::{Events, eventually_async};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tower::ServiceExt as _;

/// Lets handlers continue, one for each permit.
type Gate = Arc<Semaphore>;

fn gate() -> Gate {
    Arc::new(Semaphore::new(0))
}

#[distributed_lock(resource = "stock:{sku}", wait = "0s")]
async fn gated(Path(sku): Path<String>, State(gate): State<Gate>, lease: Lease) -> String {
    assert_eq!(Lease::current().unwrap().token(), lease.token());
    gate.acquire().await.unwrap().forget();
    format!("{sku} {}", lease.token())
}

fn gated_app(gate: &Gate) -> Router {
    Router::new().route("/stock/{sku}", on_post(gated)).with_state(Arc::clone(gate))
}

// promise: distinct-errors
#[tokio::test]
async fn a_guarded_handler_runs_once_at_a_time_across_instances() {
    let (nodes, gate) = (nodes(), gate());
    let (here, there) = (manager(&nodes), manager(&nodes));
    let (one, other) = (serve(gated_app(&gate), &here).await, serve(gated_app(&gate), &there).await);

    let first = tokio::spawn(async move { post(one, "/stock/42").await });
    eventually_async("the first request holds the lock", async || !here.held().is_empty()).await;
    let busy = post(other, "/stock/42").await;
    assert_eq!((busy.status, busy.kind().as_str()), (StatusCode::CONFLICT, "lock-busy"));
    assert!(busy.retry_after().unwrap() >= 1);
    assert!(busy.problem()["retry_after_ms"].is_u64());
    assert!(!busy.text().contains("42"), "the response does not contain the resource: {}", busy.text());

    gate.add_permits(2);
    let response = first.await.unwrap();
    assert_eq!(response.status, StatusCode::OK);
    let later = post(other, "/stock/42").await;
    let token = |text: &str| text.split_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert!(token(response.text()) < token(later.text()), "tokens increase");
}

// promise: distinct-errors
#[tokio::test]
async fn a_missing_quorum_is_503_and_not_busy() {
    let (nodes, gate) = (nodes(), gate());
    for node in &nodes[..3] {
        node.set_down(true);
    }
    let address = serve(gated_app(&gate), &manager(&nodes)).await;
    let response = post(address, "/stock/42").await;
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "lock-unavailable"));
    assert_eq!(response.retry_after(), Some(1));
}

// promise: fail-closed
#[tokio::test]
async fn a_missing_lock_manager_fails_closed() {
    let runs = Counter::default();

    #[distributed_lock(resource = "r")]
    async fn handler(State(runs): State<Counter>) {
        runs.add();
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", on_post(handler)).with_state(runs.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let response = post(address, "/").await;
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.problem()["type"], "about:blank");
    assert_eq!(runs.get(), 0, "never an unguarded handler");
}

#[derive(Deserialize)]
struct Order {
    sku: String,
}

#[tokio::test]
async fn extractors_run_before_the_lock_is_acquired() {
    #[distributed_lock(resource = "stock:{order.sku}", wait = "0s")]
    async fn handler(token: FencingToken, Json(order): Json<Order>) -> String {
        format!("{} {token}", order.sku)
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let address = serve(Router::new().route("/", on_post(handler)), &locks).await;
    let json = |body: &'static str| request("/").header("content-type", "application/json").body(Body::from(body));

    let _held = locks.lock("stock:a").acquire().await.unwrap();
    let malformed = send(address, json("{").unwrap()).await.unwrap();
    assert_eq!(malformed.status, StatusCode::BAD_REQUEST);
    assert_eq!(send(address, json(r#"{"sku":"a"}"#).unwrap()).await.unwrap().status, StatusCode::CONFLICT);
    assert_eq!(send(address, json(r#"{"sku":"b"}"#).unwrap()).await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_value_cannot_forge_another_resource() {
    let (nodes, gate) = (nodes(), gate());
    let locks = manager(&nodes);
    let address = serve(gated_app(&gate), &locks).await;
    let running = tokio::spawn(async move { post(address, "/stock/a%3Ab%7B").await });
    eventually_async("the handler holds its lock", async || !locks.held().is_empty()).await;
    assert_eq!(locks.held()[0].resource(), "stock:a%3Ab%7B");
    gate.add_permits(1);
    assert_eq!(running.await.unwrap().status, StatusCode::OK);

    let long = post(address, &format!("/stock/{}", "x".repeat(600))).await;
    assert_eq!((long.status, long.kind().as_str()), (StatusCode::BAD_REQUEST, "lock-key-invalid"));
}

#[tokio::test]
async fn a_handler_slower_than_the_ttl_is_renewed() {
    #[distributed_lock(resource = "slow", ttl = "150ms")]
    async fn handler(lease: Lease) -> impl IntoResponse {
        sleep(Duration::from_millis(600)).await;
        lease.is_valid().to_string()
    }
    let address = serve(Router::new().route("/", on_post(handler)), &manager(&nodes())).await;
    let response = post(address, "/").await;
    assert_eq!((response.status, response.text()), (StatusCode::OK, "true"));
}

// promise: reported-losses
#[tokio::test]
async fn a_handler_slower_than_max_hold_is_cancelled_and_never_2xx() {
    let (ended, finished) = (Counter::default(), Counter::default());

    #[distributed_lock(resource = "slow", ttl = "150ms", max_hold = "300ms")]
    async fn handler(State((ended, finished)): State<(Counter, Counter)>) -> &'static str {
        let _ended = ended.on_drop();
        sleep(Duration::from_secs(30)).await;
        finished.add();
        "done"
    }
    let nodes = nodes();
    let app = Router::new().route("/", on_post(handler)).with_state((ended.clone(), finished.clone()));
    let address = serve(app, &manager(&nodes)).await;
    let response = post(address, "/").await;
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost"));
    assert_eq!(response.retry_after(), None);
    assert_eq!((ended.get(), finished.get()), (1, 0));
    eventually_async("the lock is released", async || is_free(&nodes, "slow").await).await;
}

// promise: reported-losses
#[tokio::test]
async fn on_lost_continue_lets_the_handler_complete_but_hides_its_success() {
    let finished = Counter::default();

    #[distributed_lock(resource = "{status}", ttl = "100ms", max_hold = "100ms", on_lost = "continue")]
    async fn handler(Path(status): Path<u16>, State(finished): State<Counter>, lease: Lease) -> StatusCode {
        lease.lost().await;
        finished.add();
        StatusCode::from_u16(status).unwrap()
    }
    let app = Router::new().route("/{status}", on_post(handler)).with_state(finished.clone());
    let address = serve(app, &manager(&nodes())).await;
    for status in [101, 201, 303, 304, 399] {
        let response = post(address, &format!("/{status}")).await;
        assert_eq!((response.status, response.kind().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost"));
    }
    assert_eq!(finished.get(), 5);
    for status in [400, 404, 503] {
        assert_eq!(post(address, &format!("/{status}")).await.status, status, "an error of the handler");
    }
}

// promise: distinct-errors
#[tokio::test]
async fn a_failed_release_does_not_mask_the_response() {
    #[distributed_lock(resource = "r")]
    async fn handler(State(nodes): State<Vec<lock_axum::MemoryNode>>) -> &'static str {
        // From here on the release fails, which is only logged.
        nodes.iter().for_each(|node| node.set_down(true));
        "done"
    }
    let nodes = nodes();
    let app = Router::new().route("/", on_post(handler)).with_state(nodes.clone());
    let address = serve(app, &manager(&nodes)).await;
    let response = post(address, "/").await;
    assert_eq!((response.status, response.text()), (StatusCode::OK, "done"));
}

#[tokio::test]
async fn a_mistake_of_the_service_is_logged_whatever_on_error_answers() {
    fn later(_: LockError) -> StatusCode {
        StatusCode::SERVICE_UNAVAILABLE
    }
    #[distributed_lock(resource = "r", ttl = "1h", on_error = later)]
    async fn misconfigured() {}

    let (events, locks) = (Events::record(), manager(&nodes()));
    let app = Router::new().route("/", on_post(misconfigured)).layer(Extension(locks));
    let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(events.named("lock.misconfigured").len(), 1);
}

#[tokio::test]
async fn on_error_builds_the_response_but_cannot_hide_a_loss() {
    fn teapot(error: LockError) -> (StatusCode, String) {
        match error {
            LockError::Lost { .. } => (StatusCode::SEE_OTHER, "all is well".to_owned()),
            error => (StatusCode::IM_A_TEAPOT, error.resource().to_owned()),
        }
    }
    #[distributed_lock(resource = "r", wait = "0s", ttl = "100ms", max_hold = "100ms", on_error = teapot)]
    async fn handler() {
        sleep(Duration::from_secs(30)).await;
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let address = serve(Router::new().route("/", on_post(handler)), &locks).await;
    let held = locks.lock("r").acquire().await.unwrap();
    let response = post(address, "/").await;
    assert_eq!((response.status, response.text()), (StatusCode::IM_A_TEAPOT, "r"));
    held.release().await.unwrap();
    assert_eq!(post(address, "/").await.kind(), "lock-lost");
}

#[tokio::test]
async fn busy_status_sets_the_status_of_a_busy_lock() {
    #[distributed_lock(resource = "r", wait = "0s", busy_status = 423)]
    async fn handler() {}
    let locks = manager(&nodes());
    let address = serve(Router::new().route("/", on_post(handler)), &locks).await;
    let _held = locks.lock("r").acquire().await.unwrap();
    let response = post(address, "/").await;
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::LOCKED, "lock-busy"));
}

#[tokio::test]
async fn lease_and_token_are_extracted_in_any_position() {
    #[distributed_lock(resource = "r")]
    async fn handler(
        Extension(token): Extension<FencingToken>,
        lease: Lease,
        Extension(same): Extension<Lease>,
        request: Request,
    ) -> String {
        let in_request = request.extensions().get::<FencingToken>().unwrap();
        assert_eq!((token, token, token), (lease.token(), same.token(), *in_request));
        assert_eq!(request.extensions().get::<Lease>().unwrap().token(), token);
        token.to_string()
    }
    let address = serve(Router::new().route("/", on_post(handler)), &manager(&nodes())).await;
    let response = post(address, "/").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text());
}

// promise: reported-losses
#[tokio::test]
async fn the_response_for_a_lock_that_was_lost_has_its_token() {
    #[distributed_lock(resource = "slow", ttl = "100ms", max_hold = "100ms")]
    async fn by_attribute(State(held): State<Arc<OnceLock<FencingToken>>>, lease: Lease) {
        held.set(lease.token()).unwrap();
        sleep(Duration::from_secs(30)).await;
    }
    async fn by_layer(State(held): State<Arc<OnceLock<FencingToken>>>, Extension(token): Extension<FencingToken>) {
        held.set(token).unwrap();
        sleep(Duration::from_secs(30)).await;
    }
    let locks = manager(&nodes());
    let short = Duration::from_millis(100);
    let layer = LockLayer::new(locks.clone(), "slow").ttl(short).max_hold(short);
    let layer = layer.on_error(|_| StatusCode::BAD_GATEWAY.into_response());
    for (handler, status) in [
        (on_post(by_attribute), StatusCode::INTERNAL_SERVER_ERROR),
        (on_post(by_layer).layer(layer), StatusCode::BAD_GATEWAY),
    ] {
        let held = Arc::default();
        let app = Router::new().route("/", handler).layer(Extension(locks.clone())).with_state(Arc::clone(&held));
        let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!((response.extensions().get(), held.get().is_some()), (held.get(), true), "for an access log");
    }
}
