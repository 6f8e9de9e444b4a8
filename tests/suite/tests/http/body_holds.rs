//! Locks that are held until the end of the response's body: by the attribute with `hold = "body"` as by the layer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode};
use axum::routing::{MethodRouter, any, get};
use futures_util::{StreamExt as _, stream};
use lock_axum::{Lease, LockLayer, LockManager, OnLost, distributed_lock};
use lock_support::http::{Counter, PATIENCE, is_free, manager, nodes, serve};
use lock_support::{Events, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::layer_bodies::{assert_held_until_the_body_ends, parts};

type Gate = Arc<Semaphore>;

async fn by_layer(State(gate): State<Gate>) -> Body {
    parts(gate)
}

#[distributed_lock(resource = "r", hold = "body")]
async fn by_attribute(State(gate): State<Gate>) -> Body {
    parts(gate)
}

#[distributed_lock(resource = "r", hold = "body", max_hold = "200ms")]
async fn for_a_moment(State(gate): State<Gate>) -> Body {
    parts(gate)
}

fn layer(locks: &LockManager) -> LockLayer {
    LockLayer::new(locks.clone(), "r").hold_until_body_end()
}

async fn call(route: MethodRouter<Gate>, method: Method, locks: &LockManager, gate: &Gate) -> axum::response::Response {
    let app = Router::new().route("/", route).layer(Extension(locks.clone())).with_state(Arc::clone(gate));
    let request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
    app.oneshot(request).await.unwrap()
}

// promise: bodies-and-sessions
#[tokio::test]
async fn the_attribute_holds_its_lock_until_the_body_ends_as_the_layer_does() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for route in [get(by_attribute), get(by_layer).route_layer(layer(&locks))] {
        let gate = Gate::new(Semaphore::new(1));
        let response = call(route, Method::GET, &locks, &gate).await;
        assert_held_until_the_body_ends(response.into_body(), &nodes, &gate).await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_body_of_the_attribute_ends_with_an_error_when_the_lease_is_lost() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let gate = Gate::new(Semaphore::new(1));
    let response = call(get(for_a_moment), Method::GET, &locks, &gate).await;
    let parts: Vec<_> = response.into_body().into_data_stream().collect().await;
    assert!(matches!(&parts[..], [Ok(_), Err(_)]), "{parts:?}");
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}

/// More than a connection buffers, without an end.
fn endless(owned: impl Send + 'static) -> Body {
    Body::from_stream(stream::repeat_with(move || {
        _ = &owned;
        Ok::<_, Infallible>(Bytes::from_static(&[0; 64 * 1024]))
    }))
}

/// Each renewal wakes the connection, which buffers more until it is full.
#[distributed_lock(resource = "r", hold = "body", ttl = "200ms", max_hold = "2s")]
async fn endless_by_attribute(Extension(ended): Extension<Counter>) -> Body {
    endless(ended.on_drop())
}

// promise: bodies-and-sessions
#[tokio::test]
async fn what_a_body_owns_is_dropped_with_the_loss_although_the_client_reads_nothing() {
    let locks = manager(&nodes());
    let ended = Counter::default();
    let app = Router::new().route("/", get(endless_by_attribute)).layer(Extension(ended.clone()));
    let mut client = TcpStream::connect(serve(app, &locks).await).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    eventually_async("it is held", async || !locks.held().is_empty()).await;
    eventually_async("it is over", async || locks.held().is_empty()).await;
    timeout(Duration::from_secs(2), ended.reaches(1)).await.expect("the body is gone");
    // And the client is not told that this was all of it.
    let mut answer = Vec::new();
    _ = timeout(PATIENCE, client.read_to_end(&mut answer)).await.expect("the connection ends");
    assert!(answer.len() > 64 * 1024 && !answer.ends_with(b"0\r\n\r\n"));
}

/// Returns when its lease is over.
async fn stale(lease: Lease) -> (StatusCode, &'static str) {
    lease.lost().await;
    (StatusCode::CONFLICT, "stale")
}

#[distributed_lock(resource = "r", hold = "body", max_hold = "50ms", on_lost = "continue")]
async fn stale_by_attribute(lease: Lease) -> (StatusCode, &'static str) {
    stale(lease).await
}

// promise: reported-losses
#[tokio::test]
async fn an_error_that_reports_the_loss_of_a_lock_that_its_body_would_hold_reaches_the_client() {
    let locks = manager(&nodes());
    let layer = layer(&locks).max_hold(Duration::from_millis(50)).on_lost(OnLost::Continue);
    for route in [get(stale_by_attribute), get(stale).route_layer(layer)] {
        let response = call(route, Method::GET, &locks, &Gate::new(Semaphore::new(0))).await;
        assert_eq!(response.status(), StatusCode::CONFLICT);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(body, "stale");
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_releases_the_lock() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for route in [get(by_attribute), get(by_layer).route_layer(layer(&locks))] {
        let response = call(route, Method::GET, &locks, &Gate::new(Semaphore::new(0))).await;
        assert_eq!(locks.held().len(), 1);
        drop(response);
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_body_acquires_its_lock_again_as_the_handler_does() {
    /// Takes the lock of its own body, without waiting, for each of its parts.
    async fn again(Extension(locks): Extension<LockManager>) -> Body {
        let parts = stream::iter(0..2).then(move |part| {
            locks.lock("r").run(async move |lease| {
                assert_eq!(lease.token(), Lease::current().unwrap().token());
                format!("{part}")
            })
        });
        Body::from_stream(parts)
    }
    #[distributed_lock(resource = "r", hold = "body")]
    async fn by_attribute(locks: Extension<LockManager>) -> Body {
        again(locks).await
    }
    let nodes = nodes();
    let locks = LockManager::builder().nodes(nodes.clone()).wait(Duration::ZERO).connect().await.unwrap();
    let outer = LockLayer::new(locks.clone(), "outer");
    for route in [
        get(by_attribute),
        get(again).route_layer(layer(&locks)),
        // The outer lock is released before the body is sent.
        get(by_attribute).route_layer(outer),
    ] {
        let response = call(route, Method::GET, &locks, &Gate::new(Semaphore::new(0))).await;
        let parts: Vec<_> = response.into_body().into_data_stream().collect().await;
        assert!(matches!(&parts[..], [Ok(_), Ok(_)]), "{parts:?}");
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn what_a_body_owns_is_dropped_before_its_lock_is_released() {
    struct Owned(Lease, Arc<AtomicBool>);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.1.store(self.0.is_valid(), Ordering::Relaxed);
        }
    }
    let locks = manager(&nodes());
    for fails in [false, true] {
        let was_held = Arc::new(AtomicBool::new(false));
        let owned = Arc::clone(&was_held);
        let route = get(async move |lease: Lease| {
            let owned = Owned(lease, owned);
            Body::from_stream(stream::poll_fn(move |_| {
                let _ = &owned;
                Poll::Ready(fails.then(|| Err::<Bytes, _>(std::io::Error::other("it fails"))))
            }))
        });
        let response = call(route.route_layer(layer(&locks)), Method::GET, &locks, &Gate::new(Semaphore::new(0))).await;
        // Kept, as by a middleware, beyond its end.
        let mut body = response.into_body().into_data_stream();
        assert_eq!(body.next().await.is_some(), fails);
        assert!(was_held.load(Ordering::Relaxed), "fails: {fails}");
        assert!(locks.held().is_empty());
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn the_answer_to_head_and_an_empty_body_release_at_once() {
    #[distributed_lock(resource = "r", hold = "body")]
    async fn nothing() -> StatusCode {
        StatusCode::NO_CONTENT
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let gate = Gate::new(Semaphore::new(0));
    for (route, method) in [
        (get(by_attribute), Method::HEAD),
        (get(by_layer).route_layer(layer(&locks)), Method::HEAD),
        (get(nothing), Method::GET),
        (get(async || StatusCode::NO_CONTENT).route_layer(layer(&locks)), Method::GET),
        (get(async || ()).route_layer(layer(&locks)), Method::GET),
    ] {
        let response = call(route, method.clone(), &locks, &gate).await;
        assert!(response.status().is_success());
        assert!(locks.held().is_empty(), "{method}, while the response is alive");
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
        drop(response);
    }
}

#[tokio::test]
async fn the_attribute_does_not_hold_an_upgrade_by_its_body_and_says_so_once() {
    #[distributed_lock(resource = "r", hold = "body")]
    async fn upgrade(method: Method) -> StatusCode {
        if method == Method::CONNECT { StatusCode::OK } else { StatusCode::SWITCHING_PROTOCOLS }
    }
    let events = Events::record();
    let locks = manager(&nodes());
    let gate = Gate::new(Semaphore::new(0));
    for method in [Method::CONNECT, Method::GET, Method::CONNECT] {
        let response = call(any(upgrade), method, &locks, &gate).await;
        assert!(locks.held().is_empty());
        drop(response);
        assert_eq!(events.named("lock.upgrade_not_held").len(), 1);
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_body_of_an_inner_lock_outlives_the_outer_one_on_the_same_resource() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let gate = Gate::new(Semaphore::new(0));
    let outer = LockLayer::new(locks.clone(), "r").max_hold(Duration::from_secs(60));
    let response = call(get(by_attribute).route_layer(outer), Method::GET, &locks, &gate).await;
    assert!(!is_free(&nodes, "r").await, "the body is not complete");
    drop(response);
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}
