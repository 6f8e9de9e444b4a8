//! The bodies of requests that wait for locks are bounded in all, for each manager.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::routing::post as on_post;
use futures_util::stream;
use lock_axum::__private::BufferedBytes;
use lock_axum::{Lease, LockLayer, LockManager, distributed_lock};
use lock_support::http::{Response, nodes, request, send, serve};
use lock_support::{eventually, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What the manager of these tests keeps in memory.
const LIMIT: usize = 100;

fn manager() -> LockManager {
    LockManager::builder()
        .nodes(nodes())
        .wait(Duration::from_secs(20))
        .max_buffered_bytes(LIMIT)
        .connect_lazy()
        .unwrap()
}

async fn length(body: Bytes) -> String {
    body.len().to_string()
}

#[distributed_lock(resource = "{resource}", retry_after = "7s")]
async fn guarded(Path(resource): Path<String>, body: Bytes) -> String {
    _ = resource;
    body.len().to_string()
}

/// `/layer/{resource}` and `/macro/{resource}` answer with the length of the body.
async fn service(locks: &LockManager) -> SocketAddr {
    let layer = LockLayer::new(locks.clone(), "{resource}").retry_after(Duration::from_secs(7));
    let app = Router::new()
        .route("/layer/{resource}", on_post(length).route_layer(layer))
        .route("/macro/{resource}", on_post(guarded));
    serve(app, locks).await
}

async fn upload(address: SocketAddr, path: &str, bytes: usize) -> Response {
    send(address, request(path).body(Body::from(vec![b'x'; bytes])).unwrap()).await.unwrap()
}

/// Whether this many bytes are left.
fn is_left(locks: &LockManager, bytes: usize) -> bool {
    BufferedBytes::of(locks).take(bytes)
}

fn taken_by_others(locks: &LockManager) -> BufferedBytes {
    let mut others = BufferedBytes::of(locks);
    // What has arrived is not given up for others.
    assert!(others.take(1) && others.complete());
    others
}

fn assert_refused(response: &Response) {
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "lock-buffer-full"));
    assert_eq!(response.retry_after(), Some(7));
    assert_eq!(response.problem()["retry_after_ms"], 7000);
}

#[tokio::test]
async fn waiting_requests_of_all_routes_share_the_limit_of_their_manager() {
    let locks = manager();
    let address = service(&locks).await;
    let held = locks.lock("r").acquire().await.unwrap();
    let waiting = ["/layer/r", "/macro/r"].map(|path| tokio::spawn(async move { upload(address, path, 40).await }));
    eventually("both bodies are in memory", || !is_left(&locks, LIMIT - 79)).await;

    for path in ["/layer/r", "/macro/r", "/layer/other", "/macro/other"] {
        assert_refused(&upload(address, path, 21).await);
    }
    assert_eq!(locks.held().len(), 1, "what is refused locks nothing");
    for path in ["/layer/other", "/macro/other"] {
        assert_eq!(upload(address, path, 20).await.text(), "20", "what fits is served meanwhile");
    }

    held.release().await.unwrap();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().text(), "40");
    }
    assert!(is_left(&locks, LIMIT), "the handlers have received their bodies");
    assert!(is_left(&manager(), LIMIT), "another manager has a limit of its own");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_counted_as_it_arrives() {
    let locks = manager();
    let address = service(&locks).await;
    for path in ["/layer/r", "/macro/r"] {
        for (chunks, fits) in [(LIMIT / 10, true), (LIMIT / 10 + 1, false)] {
            let chunks = stream::iter((0..chunks).map(|_| Ok::<_, Infallible>("0123456789")));
            let response = send(address, request(path).body(Body::from_stream(chunks)).unwrap()).await.unwrap();
            if fits {
                assert_eq!(response.text(), LIMIT.to_string());
            } else {
                // It never fits: another attempt would be in vain.
                assert_eq!((response.status, response.retry_after()), (StatusCode::PAYLOAD_TOO_LARGE, None));
            }
            eventually("the bytes are given back", || is_left(&locks, LIMIT)).await;
        }
    }
}

#[tokio::test]
async fn a_slow_upload_takes_up_what_it_has_sent_and_not_what_it_has_announced() {
    let locks = manager();
    let address = service(&locks).await;
    for path in ["/layer/slow", "/macro/slow"] {
        let mut slow = TcpStream::connect(address).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {LIMIT}\r\n\r\n");
        slow.write_all(head.as_bytes()).await.unwrap();
        slow.write_all(&[b'x'; 10]).await.unwrap();
        eventually("the first part has arrived", || !is_left(&locks, LIMIT)).await;
        assert!(is_left(&locks, LIMIT - 10));
        assert_eq!(upload(address, "/layer/other", LIMIT - 10).await.text(), "90");

        slow.write_all(&[b'x'; LIMIT - 10]).await.unwrap();
        let mut response = String::new();
        slow.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("100"), "{response}");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_gives_back_what_it_has_sent() {
    let locks = manager();
    let address = service(&locks).await;
    let _held = locks.lock("r").acquire().await.unwrap();
    for path in ["/layer/r", "/macro/r"] {
        // One is still sending, the other waits for the lock.
        for announced in [LIMIT, 10] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {announced}\r\n\r\n0123456789");
            client.write_all(head.as_bytes()).await.unwrap();
            eventually("the body has arrived", || !is_left(&locks, LIMIT)).await;
            drop(client);
            eventually("the bytes are given back", || is_left(&locks, LIMIT)).await;
        }
    }
}

#[tokio::test]
async fn a_body_that_is_read_under_the_lock_does_not_count() {
    #[distributed_lock(resource = "r")]
    async fn by_request(lease: Lease, request: Request) -> String {
        assert!(lease.is_valid());
        axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap().len().to_string()
    }
    /// An extractor that keeps the body, as `Multipart` does.
    struct Later(Body);
    impl<S: Sync> axum::extract::FromRequest<S> for Later {
        type Rejection = Infallible;

        async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
            Ok(Self(request.into_body()))
        }
    }
    #[distributed_lock(resource = "r")]
    async fn by_extractor(Later(body): Later) -> String {
        axum::body::to_bytes(body, usize::MAX).await.unwrap().len().to_string()
    }
    let locks = manager();
    let layer = LockLayer::new(locks.clone(), "r").stream_request_body();
    let app = Router::new()
        .route("/layer", on_post(length).route_layer(layer))
        .route("/request", on_post(by_request))
        .route("/extractor", on_post(by_extractor));
    let address = serve(app, &locks).await;
    for path in ["/layer", "/request", "/extractor"] {
        let response = upload(address, path, LIMIT * 10).await;
        assert_eq!(response.text(), (LIMIT * 10).to_string(), "{path}");
        eventually_async("the lock is free", async || locks.held().is_empty()).await;
    }
}

#[tokio::test]
async fn an_extractor_that_hides_its_error_does_not_run_the_handler() {
    #[distributed_lock(resource = "r", retry_after = "7s")]
    async fn handler(body: Result<Bytes, BytesRejection>) -> String {
        body.is_ok().to_string()
    }
    let locks = manager();
    let address = serve(Router::new().route("/", on_post(handler)), &locks).await;
    let others = taken_by_others(&locks);
    assert_refused(&upload(address, "/", LIMIT).await);
    drop(others);
    assert_eq!(upload(address, "/", LIMIT).await.text(), "true");
}

#[tokio::test]
async fn a_body_counts_against_the_limit_of_the_manager_in_the_state() {
    #[distributed_lock(resource = "r", retry_after = "7s", state)]
    async fn handler(body: Bytes) -> String {
        body.len().to_string()
    }
    let locks = manager();
    let app = Router::new().route("/", on_post(handler)).with_state(locks.clone());
    let address = serve(app, &LockManager::in_memory()).await;
    let others = taken_by_others(&locks);
    assert_refused(&upload(address, "/", LIMIT).await);
    drop(others);
    assert_eq!(upload(address, "/", LIMIT).await.text(), LIMIT.to_string());
}

#[tokio::test]
async fn a_body_above_the_limit_of_the_layer_is_413_even_if_the_buffer_is_full() {
    let locks = manager();
    let layer = LockLayer::new(locks.clone(), "r").body_limit(10);
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let mut account = BufferedBytes::of(&locks);
    assert!(account.take(LIMIT));
    assert_eq!(upload(address, "/", 11).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(upload(address, "/", 10).await.kind(), "lock-buffer-full");
    assert_eq!(upload(address, "/", 0).await.text(), "0", "a request without a body needs no room");
}
