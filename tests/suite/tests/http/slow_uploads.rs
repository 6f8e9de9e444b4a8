//! Uploads that stall before their lock is acquired stop nobody else.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use futures_util::{StreamExt as _, stream};
use lock_axum::__private::BufferedBytes;
use lock_axum::{LockLayer, LockManager, distributed_lock};
use lock_support::eventually;
use lock_support::http::{nodes, request, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, advance, sleep, timeout};
use tower::ServiceExt as _;

/// What the manager of these tests keeps in memory.
const LIMIT: usize = 100;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
const ROUTES: [&str; 2] = ["/layer/r", "/macro/r"];

fn manager() -> LockManager {
    let builder = LockManager::builder().nodes(nodes()).wait(Duration::from_secs(600));
    builder.max_buffered_bytes(LIMIT).connect_lazy().unwrap()
}

#[distributed_lock(resource = "{resource}", body_timeout = "5s")]
async fn guarded(Path(resource): Path<String>, body: Bytes) -> String {
    _ = resource;
    body.len().to_string()
}

#[distributed_lock(resource = "{resource}")]
async fn by_default(Path(resource): Path<String>, body: Bytes) -> String {
    _ = resource;
    body.len().to_string()
}

#[distributed_lock(resource = "{resource}")]
async fn under_the_lock(Path(resource): Path<String>, body: Body) -> String {
    _ = resource;
    to_bytes(body, LIMIT).await.unwrap().len().to_string()
}

fn service(locks: &LockManager) -> Router {
    let length = async |body: Bytes| body.len().to_string();
    let layer = LockLayer::new(locks.clone(), "{resource}");
    let streaming = on_post(length).route_layer(layer.clone().stream_request_body());
    let limited = on_post(length).route_layer(layer.clone().body_timeout(BODY_TIMEOUT));
    Router::new()
        .route("/layer/{resource}", limited)
        .route("/macro/{resource}", on_post(guarded))
        .route("/default/layer/{resource}", on_post(length).route_layer(layer))
        .route("/default/macro/{resource}", on_post(by_default))
        .route("/streamed/layer/{resource}", streaming)
        .route("/streamed/macro/{resource}", on_post(under_the_lock))
        .layer(Extension(locks.clone()))
}

/// A body that sends this many bytes at once, and from then on one in each interval, for ever.
fn trickle(bytes: usize, interval: Duration) -> Body {
    let rest = stream::unfold((), move |()| async move {
        sleep(interval).await;
        Some(("x".to_owned(), ()))
    });
    Body::from_stream(stream::iter(["x".repeat(bytes)]).chain(rest).map(Ok::<_, Infallible>))
}

/// A body that sends this many bytes, and then nothing.
fn stalled(bytes: usize) -> Body {
    let first = stream::iter([Ok::<_, Infallible>("x".repeat(bytes))]);
    Body::from_stream(first.chain(stream::pending()))
}

async fn upload(app: &Router, path: &str, body: Body) -> Response {
    app.clone().oneshot(request(path).body(body).unwrap()).await.unwrap()
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1000).await.unwrap().to_vec()).unwrap()
}

/// Whether this many bytes are left.
fn is_left(locks: &LockManager, bytes: usize) -> bool {
    BufferedBytes::of(locks).take(bytes)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_answered_with_408_and_has_locked_nothing() {
    let locks = manager();
    let app = service(&locks);
    for path in ROUTES {
        for body in [stalled(10), trickle(10, Duration::from_millis(100))] {
            let began = Instant::now();
            let response = upload(&app, path, body).await;
            assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            let waited = began.elapsed();
            assert!((BODY_TIMEOUT..BODY_TIMEOUT * 11 / 10).contains(&waited), "{path}: {waited:?}");
            assert!(text(response).await.contains("the request body did not arrive within 5s"), "{path}");
            assert!(locks.held().is_empty() && is_left(&locks, LIMIT), "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_may_take_half_a_minute_by_default() {
    let app = service(&manager());
    for path in ["/default/layer/r", "/default/macro/r"] {
        let began = Instant::now();
        assert_eq!(upload(&app, path, stalled(1)).await.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
        let (half_a_minute, waited) = (Duration::from_secs(30), began.elapsed());
        assert!((half_a_minute..half_a_minute * 11 / 10).contains(&waited), "{path}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_the_wait_for_the_lock_nor_a_body_that_is_read_under_it_has_that_limit() {
    let locks = manager();
    let app = service(&locks);
    for path in ROUTES {
        let held = locks.lock("r").max_hold(Duration::from_secs(600)).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let (app, path) = (app.clone(), path.to_owned());
            async move { text(upload(&app, &path, Body::from("0123456789")).await).await }
        });
        advance(BODY_TIMEOUT * 3).await;
        held.release().await.unwrap();
        assert_eq!(waiting.await.unwrap(), "10", "{path}");
    }
    for path in ["/streamed/layer/r", "/streamed/macro/r"] {
        let parts = stream::iter(0..10).then(async |_| {
            sleep(Duration::from_secs(5)).await;
            Ok::<_, Infallible>("x")
        });
        assert_eq!(text(upload(&app, path, Body::from_stream(parts)).await).await, "10", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_there_is_no_room_the_slowest_upload_is_given_up_for_a_faster_one() {
    for path in ROUTES {
        let locks = manager();
        let app = service(&locks);
        let begin = |body: Body| {
            let (app, path) = (app.clone(), path.to_owned());
            tokio::spawn(async move { upload(&app, &path, body).await })
        };
        let slowest = begin(stalled(45));
        eventually("it has begun", || !is_left(&locks, 56)).await;
        let slow = begin(trickle(45, Duration::from_millis(500)));
        eventually("both have begun", || !is_left(&locks, 11)).await;
        sleep(Duration::from_secs(3)).await;

        let other = path.replace("/r", "/other");
        assert_eq!(text(upload(&app, &other, Body::from("x".repeat(30))).await).await, "30", "{path}");
        let given_up = timeout(Duration::from_millis(10), slowest).await.expect("an answer at once").unwrap();
        assert_eq!(given_up.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
        assert!(text(given_up).await.contains("arrived too slowly"), "{path}");
        assert!(!slow.is_finished(), "{path}: its room was not needed");
        assert_eq!(slow.await.unwrap().status(), StatusCode::REQUEST_TIMEOUT, "{path}: in the end, its time is over");
        assert!(is_left(&locks, LIMIT), "{path}");
    }
}

/// Each client sends all but the end of what it has announced, and then nothing.
#[tokio::test]
async fn stalled_clients_stop_no_guarded_route_for_longer_than_the_limit() {
    let locks = manager();
    let layer = LockLayer::new(locks.clone(), "{resource}").body_timeout(Duration::from_secs(3));
    let length = async |body: Bytes| body.len().to_string();
    let address = serve(Router::new().route("/{resource}", on_post(length).route_layer(layer)), &locks).await;
    let mut clients = Vec::new();
    for number in 0..5 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head =
            format!("POST /{number} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30\r\n\r\n{}", "x".repeat(20));
        client.write_all(head.as_bytes()).await.unwrap();
        clients.push(client);
    }
    eventually("they take up all the room", || !is_left(&locks, 1)).await;
    eventually("and make room for one that is faster, or their time is over", || is_left(&locks, 40)).await;
    for mut client in clients {
        let mut answer = String::new();
        timeout(Duration::from_secs(20), client.read_to_string(&mut answer)).await.expect("it is closed").unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert!(is_left(&locks, LIMIT));
}
