//! `LockLayer`, over real connections.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::middleware::map_response;
use axum::routing::post as on_post;
use futures_util::stream::{self, StreamExt as _};
use lock_axum::{FencingToken, KeyError, Lease, LockLayer, LockManager, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{Counter, is_free, manager, masters, post, request, send, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower::{Layer, Service, ServiceExt as _};

async fn resource(lease: Lease, token: FencingToken, Extension(same): Extension<FencingToken>) -> String {
    assert_eq!((lease.token(), token), (token, same));
    assert_eq!(Lease::current().unwrap().token(), token);
    lease.resource().to_owned()
}

#[tokio::test]
async fn the_key_comes_from_path_header_query_or_function() {
    let locks = manager(&masters());
    let layer = |template: &str| LockLayer::new(locks.clone(), template);
    let by_function = LockLayer::with_key(locks.clone(), |parts: &Parts| {
        let tenant = parts.headers.get("x-tenant").and_then(|value| value.to_str().ok());
        tenant.map(|tenant| format!("tenant:{tenant}")).ok_or_else(|| KeyError::new("x-tenant header is missing"))
    });
    let app = Router::new()
        .route("/stock/{sku}", on_post(resource).route_layer(layer("stock:{sku}")))
        .route("/header", on_post(resource).route_layer(layer("export:{header.x-tenant}")))
        .route("/query", on_post(resource).route_layer(layer("search:{query.q}")))
        .route("/function", on_post(resource).route_layer(by_function))
        .route("/mistake", on_post(resource).route_layer(layer("stock:{sku}")));
    let address = serve(app, &locks).await;
    let tenant = |path: &str| request(path).header("x-tenant", "a:b").body(Body::empty()).unwrap();

    assert_eq!(post(address, "/stock/a%3Ab").await.text(), "stock:a%3Ab");
    assert_eq!(send(address, tenant("/header")).await.unwrap().text(), "export:a%3Ab");
    assert_eq!(post(address, "/query?q=a+b").await.text(), "search:a%20b");
    assert_eq!(send(address, tenant("/function")).await.unwrap().text(), "tenant:a:b");

    for path in ["/header", "/query", "/function"] {
        let answer = post(address, path).await;
        assert_eq!((answer.status, answer.kind().as_str()), (StatusCode::BAD_REQUEST, "lock-key-invalid"));
        assert!(answer.problem()["detail"].as_str().unwrap().ends_with("is missing"), "{}", answer.text());
    }
    let answer = post(address, "/mistake").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.problem()["type"], "about:blank");
}

#[tokio::test]
async fn macro_and_layer_lock_the_same_resource_by_the_same_values() {
    #[distributed_lock(resource = "stock:{sku}", wait = "0s")]
    async fn handler(Path(sku): Path<String>, inner: Lease) -> String {
        _ = sku;
        inner.token().to_string()
    }
    let masters = masters();
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "stock:{sku}");
    let seen = |response: axum::response::Response| async move {
        let token = response.extensions().get::<FencingToken>().unwrap().to_string();
        ([("x-token", token)], response)
    };
    let app = Router::new().route("/{sku}", on_post(handler)).route_layer(layer).layer(map_response(seen));
    let address = serve(app, &locks).await;
    let answer = post(address, "/a:b%2Fc").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.headers["x-token"], answer.text(), "one lock, one token, told to the middleware outside");
}

#[tokio::test]
async fn an_extractor_without_a_lock_is_an_error_of_the_service() {
    let locks = manager(&masters());
    let app = Router::new()
        .route("/", on_post(resource))
        .route("/maybe", on_post(async |lease: Option<Lease>| lease.is_none().to_string()));
    let address = serve(app, &locks).await;
    let answer = post(address, "/").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.problem()["type"], "about:blank");
    assert_eq!(post(address, "/maybe").await.text(), "true");
}

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
async fn a_slow_upload_holds_nothing() {
    let masters = masters();
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "r").wait(Duration::ZERO);
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let mut upload = slow_upload(address).await;
    // Others get through as long as it lasts.
    for _ in 0..20 {
        assert_eq!(post(address, "/").await.status, StatusCode::OK);
        eventually_async("the lock is free again", async || is_free(&masters, "r").await).await;
    }
    upload.write_all(b"67890").await.unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("10"), "{answer}");
}

#[tokio::test]
async fn a_body_that_was_read_knows_its_length() {
    async fn exact(request: axum::extract::Request) -> String {
        format!("{:?}", axum::body::HttpBody::size_hint(request.body()).exact())
    }
    let locks = manager(&masters());
    let layer = LockLayer::new(locks.clone(), "r");
    let address = serve(Router::new().route("/", on_post(exact)).route_layer(layer), &locks).await;
    let chunks = ["01234", "56789"].map(Ok::<_, Infallible>);
    let chunked = request("/").body(Body::from_stream(stream::iter(chunks))).unwrap();
    assert_eq!(send(address, chunked).await.unwrap().text(), "Some(10)");
    assert_eq!(post(address, "/").await.text(), "Some(0)");
}

#[tokio::test]
async fn a_streamed_upload_is_read_under_the_lock() {
    let masters = masters();
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "r").stream_request_body();
    let address = serve(Router::new().route("/", on_post(length)).route_layer(layer), &locks).await;
    let mut upload = slow_upload(address).await;
    eventually_async("it holds the lock", async || locks.held().len() == 1).await;
    upload.write_all(b"67890").await.unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_body_above_the_limit_is_413_and_takes_no_lock() {
    let locks = manager(&masters());
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

/// Answers at once, with a body that comes a part for each permit.
async fn streamed(State(gate): State<Arc<Semaphore>>) -> Body {
    Body::from_stream(stream::unfold((gate, 0), async |(gate, part)| {
        if part == 3 {
            return None;
        }
        gate.acquire().await.unwrap().forget();
        Some((Ok::<_, Infallible>(format!("part {part};")), (gate, part + 1)))
    }))
}

#[tokio::test]
async fn the_lock_is_held_until_the_body_ends_if_asked() {
    for until_body_end in [false, true] {
        let (masters, gate) = (masters(), Arc::new(Semaphore::new(1)));
        let locks = manager(&masters);
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
        let mut answer = String::new();
        while !answer.contains("part 0;") {
            let mut buffer = [0; 512];
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{answer}");
            answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        if until_body_end {
            assert_eq!(locks.held().len(), 1, "the body is not done");
        } else {
            eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
        }
        gate.add_permits(2);
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("part 2;") && answer.ends_with("0\r\n\r\n"), "{answer}");
        eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
    }
}

#[tokio::test]
async fn a_body_ends_with_an_error_when_the_lease_is_lost() {
    let (masters, gate) = (masters(), Arc::new(Semaphore::new(1)));
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end().max_hold(Duration::from_millis(200));
    let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
    let address = serve(app, &locks).await;
    let answer = send(address, request("/").body(Body::empty()).unwrap()).await;
    assert!(answer.is_err(), "the client must not take it for whole");
    eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
}

#[tokio::test]
async fn nothing_of_a_body_comes_after_the_lease_ended_though_nobody_was_told_yet() {
    let held = Duration::from_millis(400);
    for parts_before in 0..=3 {
        let locks = manager(&masters());
        let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end().max_hold(held);
        let gate = Arc::new(Semaphore::new(3));
        let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
        let answer = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
        let mut body = answer.into_body().into_data_stream();
        for _ in 0..parts_before {
            body.next().await.unwrap().unwrap();
        }
        // The thread that looks after leases is this one.
        std::thread::sleep(held);
        let (end, nothing) = (body.next().await, body.next().await);
        assert!(matches!(end, Some(Err(_))), "{end:?} after {parts_before}");
        assert!(nothing.is_none());
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_body_frees_the_lock() {
    let (masters, gate) = (masters(), Arc::new(Semaphore::new(1)));
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "r").hold_until_body_end();
    let app = Router::new().route("/", on_post(streamed)).route_layer(layer).with_state(gate);
    let address = serve(app, &locks).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    assert_eq!(locks.held().len(), 1);
    drop(stream);
    eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
}

#[tokio::test]
async fn on_error_answers_for_the_layer() {
    let locks = manager(&masters());
    let layer = LockLayer::new(locks.clone(), "r")
        .wait(Duration::ZERO)
        .on_error(|error| (StatusCode::IM_A_TEAPOT, error.resource().to_owned()));
    let address = serve(Router::new().route("/", on_post(async || ())).route_layer(layer), &locks).await;
    let _held = locks.lock("r").acquire().await.unwrap();
    let answer = post(address, "/").await;
    assert_eq!((answer.status, answer.text()), (StatusCode::IM_A_TEAPOT, "r"));
}

/// A service that must be called as it was readied, and that fails with an error of its own.
#[derive(Default)]
struct Strict {
    ready: bool,
    calls: Counter,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: self.calls.clone() }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = String;
    type Future = std::future::Ready<Result<Response<Body>, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(self.ready, "a clone was called that nobody readied");
        self.ready = false;
        self.calls.add();
        std::future::ready(Err("its own error".to_owned()))
    }
}

#[tokio::test]
async fn the_layer_calls_the_readied_service_and_keeps_its_error() {
    let masters = masters();
    let strict = Strict::default();
    let mut service = LockLayer::new(manager(&masters), "r").layer(strict.clone());
    for call in 1..=3 {
        let result = service.ready().await.unwrap().call(Request::new(Body::empty())).await;
        assert_eq!(result.unwrap_err(), "its own error");
        assert_eq!(strict.calls.get(), call);
    }
    eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
}

#[tokio::test]
async fn the_layer_preserves_the_request() {
    async fn handler(
        Path(sku): Path<String>,
        headers: HeaderMap,
        Extension(locks): Extension<LockManager>,
        body: String,
    ) -> String {
        assert_eq!(locks.held().len(), 1);
        format!("{sku} {} {body}", headers["x-other"].to_str().unwrap())
    }
    let locks = manager(&masters());
    let layer = LockLayer::new(locks.clone(), "stock:{sku}");
    let address = serve(Router::new().route("/{sku}", on_post(handler)).route_layer(layer), &locks).await;
    let request = request("/a").header("x-other", "b").body(Body::from("c")).unwrap();
    assert_eq!(send(address, request).await.unwrap().text(), "a b c");
}

#[test]
#[should_panic(expected = "invalid resource template \"stock:{sku\"")]
fn a_malformed_template_panics_at_construction() {
    drop(LockLayer::new(LockManager::in_memory(), "stock:{sku"));
}

#[test]
#[should_panic(expected = "got 200 OK")]
fn a_busy_status_that_is_none_panics_at_construction() {
    drop(LockLayer::new(LockManager::in_memory(), "r").busy_status(StatusCode::OK));
}
