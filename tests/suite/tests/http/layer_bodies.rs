//! `LockLayer` and the bodies of requests and responses, over real connections.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use futures_util::stream::{self, StreamExt as _};
use lock_axum::LockLayer;
use lock_core::MemoryNode;
use lock_support::eventually_async;
use lock_support::http::{is_free, manager, nodes, post, request, send, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

async fn length(body: Bytes) -> String {
    body.len().to_string()
}

/// Begins a request with a body of 10 bytes and sends 5 of them.
async fn slow_upload(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 10\r\n\r\n12345";
    stream.write_all(head).await.unwrap();
    stream
}

#[tokio::test]
async fn a_slow_upload_holds_no_lock() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").wait(Duration::ZERO);
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let mut upload = slow_upload(address).await;
    // Other requests are served meanwhile.
    for _ in 0..20 {
        assert_eq!(post(address, "/").await.status, StatusCode::OK);
        eventually_async("the lock is free again", async || is_free(&nodes, "r").await).await;
    }
    upload.write_all(b"67890").await.unwrap();
    let mut response = String::new();
    upload.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("10"), "{response}");
}

#[tokio::test]
async fn a_buffered_body_has_an_exact_length() {
    async fn exact(request: axum::extract::Request) -> String {
        format!("{:?}", axum::body::HttpBody::size_hint(request.body()).exact())
    }
    let locks = manager(&nodes());
    let layer = LockLayer::new(locks.clone(), "r");
    let address = serve(Router::new().route("/", on_post(exact)).route_layer(layer), &locks).await;
    let chunks = ["01234", "56789"].map(Ok::<_, Infallible>);
    let chunked = request("/").body(Body::from_stream(stream::iter(chunks))).unwrap();
    assert_eq!(send(address, chunked).await.unwrap().text(), "Some(10)");
    assert_eq!(post(address, "/").await.text(), "Some(0)");
}

#[tokio::test]
async fn a_streamed_upload_is_read_under_the_lock() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").stream_request_body();
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let mut upload = slow_upload(address).await;
    eventually_async("the upload holds the lock", async || locks.held().len() == 1).await;
    upload.write_all(b"67890").await.unwrap();
    let mut response = String::new();
    upload.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[tokio::test]
async fn a_body_above_the_limit_is_413_and_takes_no_lock() {
    let locks = manager(&nodes());
    let layer = LockLayer::new(locks.clone(), "r").body_limit(10).wait(Duration::ZERO);
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let upload = |body: Body| send(address, request("/").body(body).unwrap());
    assert_eq!(upload(Body::from("0123456789")).await.unwrap().text(), "10");
    let _held = locks.lock("r").acquire().await.unwrap();
    let announced = upload(Body::from("0123456789x")).await.unwrap();
    assert_eq!(announced.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(announced.problem()["type"], "about:blank");
    let chunks = ["01234", "56789", "x"].map(Ok::<_, Infallible>);
    let chunked = upload(Body::from_stream(stream::iter(chunks))).await.unwrap();
    assert_eq!(chunked.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// A body of three parts, each of which waits for a permit.
pub(crate) fn parts(gate: Arc<Semaphore>) -> Body {
    Body::from_stream(stream::unfold((gate, 0), async |(gate, part)| {
        if part == 3 {
            return None;
        }
        gate.acquire().await.unwrap().forget();
        Some((Ok::<_, Infallible>(format!("part {part};")), (gate, part + 1)))
    }))
}

/// Responds at once, with such a body.
async fn streamed(State(gate): State<Arc<Semaphore>>) -> Body {
    parts(gate)
}

// promise: bodies-and-sessions
#[tokio::test]
async fn hold_until_body_end_keeps_the_lock_until_the_body_ends() {
    for until_body_end in [false, true] {
        let (nodes, gate) = (nodes(), Arc::new(Semaphore::new(1)));
        let locks = manager(&nodes);
        let mut layer = LockLayer::new(locks.clone(), "r");
        if until_body_end {
            layer = layer.hold_until_body_end();
        }
        let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(Arc::clone(&gate));
        let address = serve(app, &locks).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        let mut response = String::new();
        while !response.contains("part 0;") {
            let mut buffer = [0; 512];
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{response}");
            response.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        if until_body_end {
            assert_eq!(locks.held().len(), 1, "the body is not complete");
        } else {
            eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
        }
        gate.add_permits(2);
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.contains("part 2;") && response.ends_with("0\r\n\r\n"), "{response}");
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    }
}

#[tokio::test]
async fn a_body_that_holds_an_inner_lock_outlives_the_outer_one_on_the_same_resource() {
    let (nodes, gate) = (nodes(), Arc::new(Semaphore::new(1)));
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r");
    let route = on_post(streamed).route_layer(layer.clone().hold_until_body_end()).route_layer(layer);
    let app = Router::new().route("/", route).with_state(Arc::clone(&gate));
    let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_held_until_the_body_ends(response.into_body(), &nodes, &gate).await;
}

/// Reads a body of three parts, of which the gate lets one through, to its end. The lock is free then, although the body has not
/// been dropped.
pub(crate) async fn assert_held_until_the_body_ends(body: Body, nodes: &[MemoryNode], gate: &Semaphore) {
    let mut body = body.into_data_stream();
    body.next().await.unwrap().unwrap();
    assert!(!is_free(nodes, "r").await, "the body is not complete");
    gate.add_permits(2);
    let rest: Vec<_> = body.by_ref().collect().await;
    assert!(matches!(&rest[..], [Ok(_), Ok(_)]), "{rest:?}");
    eventually_async("the lock is free", async || is_free(nodes, "r").await).await;
}

// promise: reported-losses, bodies-and-sessions
#[tokio::test]
async fn a_body_ends_with_an_error_when_the_lease_is_lost() {
    let (nodes, gate) = (nodes(), Arc::new(Semaphore::new(1)));
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end().max_hold(Duration::from_millis(200));
    let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
    let address = serve(app, &locks).await;
    let response = send(address, request("/").body(Body::empty()).unwrap()).await;
    assert!(response.is_err(), "the client must not take the body for complete");
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}

// promise: reported-losses
#[tokio::test]
async fn no_part_of_a_body_follows_the_end_of_the_lease_even_before_it_is_reported() {
    let held = Duration::from_millis(400);
    for parts_before in 0..=3 {
        let locks = manager(&nodes());
        let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end().max_hold(held);
        let gate = Arc::new(Semaphore::new(3));
        let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
        let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
        let mut body = response.into_body().into_data_stream();
        for _ in 0..parts_before {
            body.next().await.unwrap().unwrap();
        }
        // The renewer runs on this thread, so it has not reported the loss.
        std::thread::sleep(held);
        let (end, nothing) = (body.next().await, body.next().await);
        assert!(matches!(end, Some(Err(_))), "{end:?} after {parts_before}");
        assert!(nothing.is_none());
    }
}

#[tokio::test]
async fn a_client_that_disconnects_during_the_body_frees_the_lock() {
    let (nodes, gate) = (nodes(), Arc::new(Semaphore::new(1)));
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end();
    let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
    let address = serve(app, &locks).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    assert_eq!(locks.held().len(), 1);
    drop(stream);
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}
