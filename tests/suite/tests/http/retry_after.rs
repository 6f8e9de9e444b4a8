//! When a client that was turned away may try again: the header, and the more precise figure in the problem document.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::{LockError, LockLayer, LockManager, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{Response, manager, nodes, request};
use tokio::time::sleep;
use tower::ServiceExt as _;

const SECOND: Duration = Duration::from_secs(1);

/// Sends a POST without a connection, so that virtual time does not advance meanwhile.
async fn post(app: &Router, locks: &LockManager) -> Response {
    let app = app.clone().layer(Extension(locks.clone()));
    let (parts, body) = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap().into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Response { status: parts.status, headers: parts.headers, body }
}

/// `Retry-After`, and `retry_after_ms`.
fn advice(response: &Response) -> (Option<u64>, Option<u64>) {
    (response.retry_after(), response.problem()["retry_after_ms"].as_u64())
}

/// The same handler, once with the attribute and once with the layer.
fn apps(locks: &LockManager) -> [Router; 2] {
    #[distributed_lock(resource = "r", wait = "0s")]
    async fn guarded() {}
    let layer = LockLayer::new(locks.clone(), "r").wait(Duration::ZERO);
    [Router::new().route("/", on_post(guarded)), Router::new().route("/", on_post(async || ()).route_layer(layer))]
}

#[tokio::test(start_paused = true)]
async fn the_advice_is_one_second_and_what_holds_took_lately_whatever_the_ttl() {
    for which in 0..2 {
        let locks = manager(&nodes());
        let app = &apps(&locks)[which];
        let held = locks.lock("r").ttl(SECOND * 30).acquire().await.unwrap();
        assert_eq!(advice(&post(app, &locks).await), (Some(1), Some(1000)), "nothing is known of the resource");
        sleep(Duration::from_millis(300)).await;
        held.release().await.unwrap();

        let _held = locks.lock("r").ttl(SECOND * 30).acquire().await.unwrap();
        assert_eq!(advice(&post(app, &locks).await), (Some(1), Some(300)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_header_is_what_attribute_and_layer_say() {
    #[distributed_lock(resource = "r", wait = "0s", retry_after = "30s")]
    async fn guarded() {}
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").wait(Duration::ZERO).retry_after(SECOND * 30);
    let apps =
        [Router::new().route("/", on_post(guarded)), Router::new().route("/", on_post(async || ()).route_layer(layer))];

    let held = locks.lock("r").acquire().await.unwrap();
    for app in &apps {
        let response = post(app, &locks).await;
        assert_eq!(response.kind(), "lock-busy");
        assert_eq!(advice(&response), (Some(30), Some(30_000)), "the same in both if no hold is known");
    }
    held.release().await.unwrap();
    nodes.iter().for_each(|node| node.set_down(true));
    for app in &apps {
        let response = post(app, &locks).await;
        assert_eq!(response.kind(), "lock-unavailable");
        assert_eq!(advice(&response), (Some(30), Some(30_000)), "how long a lock is held says nothing about an outage");
    }
    locks.close();
    for app in &apps {
        assert_eq!(advice(&post(app, &locks).await), (Some(30), Some(30_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_and_an_invalid_resource_advise_no_retry() {
    #[distributed_lock(resource = "r", max_hold = "100ms")]
    async fn slow() {
        sleep(SECOND * 60).await;
    }
    #[distributed_lock(key = "a{b")]
    async fn invalid() {}
    let locks = manager(&nodes());
    for (handler, kind) in [(on_post(slow), "lock-lost"), (on_post(invalid), "lock-key-invalid")] {
        let response = post(&Router::new().route("/", handler), &locks).await;
        assert_eq!(response.kind(), kind);
        assert_eq!(advice(&response), (None, None));
    }
}

#[test]
fn a_retry_after_that_the_header_cannot_say_panics_at_construction() {
    for (wrong, got) in [
        (Duration::ZERO, "got 0ns"),
        (SECOND / 2, "got 500ms"),
        (SECOND * 3 / 2, "got 1.5s"),
        (SECOND * 3601, "got 3601s"),
    ] {
        let layer = std::panic::catch_unwind(|| LockLayer::new(LockManager::in_memory(), "r").retry_after(wrong));
        let panic = layer.unwrap_err().downcast::<String>().unwrap();
        assert!(panic.starts_with("retry_after must be whole seconds between 1s and 3600s") && panic.ends_with(got));
    }
    for good in [SECOND, SECOND * 3600] {
        drop(LockLayer::new(LockManager::in_memory(), "r").retry_after(good));
    }
}

/// The status, the type, and the advice of a request to a guarded handler, with the attribute and with the layer.
async fn answers(locks: &LockManager, apps: [Router; 2]) -> [(u16, String, (Option<u64>, Option<u64>)); 2] {
    let [attribute, layer] = apps;
    let answer = async |app: Router| {
        let response = post(&app, locks).await;
        (response.status.as_u16(), response.kind(), advice(&response))
    };
    [answer(attribute).await, answer(layer).await]
}

// promise: distinct-errors
#[tokio::test]
async fn a_full_queue_is_busy_and_answered_at_once() {
    #[distributed_lock(resource = "r", wait = "1h", busy_status = 429, retry_after = "7s")]
    async fn guarded() {}
    let nodes = nodes();
    let locks = LockManager::builder().nodes(nodes.clone()).max_waiters(1).connect_lazy().unwrap();
    let _held = manager(&nodes).lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").wait(SECOND * 3600).acquire());
    let full = async || locks.lock("r").wait(Duration::from_millis(1)).acquire().await;
    eventually_async("it waits", async || matches!(full().await, Err(LockError::QueueFull { .. }))).await;
    let layer = LockLayer::new(locks.clone(), "r").wait(SECOND * 3600).retry_after(SECOND * 7);
    let layer = layer.busy_status(StatusCode::TOO_MANY_REQUESTS);
    let apps =
        [Router::new().route("/", on_post(guarded)), Router::new().route("/", on_post(async || ()).route_layer(layer))];
    let busy = (429, "lock-busy".to_owned(), (Some(7), Some(7000)));
    assert_eq!(answers(&locks, apps).await, [busy.clone(), busy]);
    waiting.abort();
}

// promise: distinct-errors
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_granted_too_late_is_503_and_its_handler_does_not_run() {
    #[distributed_lock(resource = "r", ttl = "100ms", wait = "0s", retry_after = "7s")]
    async fn guarded() {
        by_layer().await;
    }
    async fn by_layer() {
        panic!("its lock is of no use");
    }
    let nodes = nodes();
    let locks = LockManager::builder().nodes(nodes.clone()).node_timeout(SECOND).connect().await.unwrap();
    nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(110)));
    let layer =
        LockLayer::new(locks.clone(), "r").ttl(Duration::from_millis(100)).wait(Duration::ZERO).retry_after(SECOND * 7);
    let apps =
        [Router::new().route("/", on_post(guarded)), Router::new().route("/", on_post(by_layer).route_layer(layer))];
    let late = (503, "lock-unavailable".to_owned(), (Some(7), Some(7000)));
    assert_eq!(answers(&locks, apps).await, [late.clone(), late]);
    locks.shutdown(SECOND).await;
    assert!(nodes.iter().all(|node| node.lock_keys().is_empty()), "it is given back");
}
