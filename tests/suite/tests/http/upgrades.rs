//! Upgrades, such as those to a WebSocket: the lock is held until the 101, and not for the session.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post as on_post};
use hyper_util::rt::TokioIo;
use lock_axum::{Hold, LockLayer, distributed_lock};
use lock_support::http::{is_free, manager, nodes, serve};
use lock_support::{Events, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::sessions::HOUR;

/// Changes over to a protocol that repeats what it receives.
async fn upgrade(mut request: Request) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
        tokio::io::copy(&mut reader, &mut writer).await
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Opens a session, over a connection of its own.
async fn open(address: std::net::SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        response.push(stream.read_u8().await.unwrap());
    }
    assert!(response.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&response));
    stream
}

#[tokio::test]
async fn nothing_is_held_after_an_upgrade_whatever_the_options() {
    #[distributed_lock(resource = "r")]
    async fn by_macro(request: Request) -> Response {
        upgrade(request).await
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = || LockLayer::new(locks.clone(), "r");
    let app = Router::new()
        .route("/macro", on_post(by_macro))
        .route("/layer", on_post(upgrade).route_layer(layer()))
        .route("/held", on_post(upgrade).route_layer(layer().hold_until_body_end()))
        .route("/streamed", on_post(upgrade).route_layer(layer().hold_until_body_end().stream_request_body()));
    let address = serve(app, &locks).await;
    for path in ["/macro", "/layer", "/held", "/streamed"] {
        let mut session = open(address, path).await;
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
        session.write_all(b"ping").await.unwrap();
        let mut echo = [0; 4];
        session.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"ping", "the session is open");
        assert!(locks.held().is_empty());
    }
}

#[tokio::test]
async fn the_response_to_an_upgrade_does_not_hold_the_lock() {
    let nodes = nodes();
    let layer = LockLayer::new(manager(&nodes), "r").hold_until_body_end();
    let app: Router = Router::new().route("/", on_post(async || StatusCode::SWITCHING_PROTOCOLS).route_layer(layer));
    let response = app.oneshot(Request::post("/").body(Body::empty()).unwrap()).await.unwrap();
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    drop(response);
}

#[tokio::test]
async fn a_hold_that_the_answer_to_a_connect_ends_is_logged_as_that_of_another_upgrade() {
    let (events, nodes) = (Events::record(), nodes());
    let locks = manager(&nodes);
    let layer = || LockLayer::new(locks.clone(), "r").hold_until_body_end();
    let app: Router = Router::new()
        .route("/empty", any(async || StatusCode::OK).layer(layer()))
        .route("/body", any(async || "a body, which no server sends").layer(layer()))
        .route("/refused", any(async || StatusCode::FORBIDDEN).layer(layer()));
    let connect = async |path: &str, method: Method| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        drop(app.clone().oneshot(request).await.unwrap());
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
        events.named("lock.upgrade_not_held").len()
    };
    assert_eq!(connect("/empty", Method::POST).await, 0, "a response without a body");
    assert_eq!(connect("/refused", Method::CONNECT).await, 0);
    assert_eq!(connect("/empty", Method::CONNECT).await, 1);
    assert_eq!(connect("/body", Method::CONNECT).await, 2);
}

#[tokio::test]
async fn a_hold_that_an_upgrade_ends_is_logged_once_for_each_layer() {
    let events = Events::record();
    let locks = manager(&nodes());
    let layer = || LockLayer::new(locks.clone(), "r");
    let app = Router::new()
        .route("/default", on_post(upgrade).route_layer(layer()))
        .route("/one", on_post(upgrade).route_layer(layer().hold_until_body_end()))
        .route("/other", on_post(upgrade).route_layer(layer().hold_until_body_end()));
    let address = serve(app, &locks).await;
    for (path, logged) in [("/default", 0), ("/one", 1), ("/one", 1), ("/other", 2), ("/one", 2), ("/other", 2)] {
        drop(open(address, path).await);
        assert_eq!(events.named("lock.upgrade_not_held").len(), logged, "{path}");
    }
    assert!(events.named("lock.upgrade_not_held").iter().all(|event| event.level == tracing::Level::WARN));
}

#[tokio::test]
async fn a_session_whose_handler_takes_no_hold_along_is_logged_as_not_held() {
    const SWITCHING: StatusCode = StatusCode::SWITCHING_PROTOCOLS;
    let events = Events::record();
    let locks = manager(&nodes());
    let layer = || LockLayer::new(locks.clone(), "r").hold_until_session_end(HOUR);
    let outer = LockLayer::new(locks.clone(), "r").max_hold(HOUR);
    let taken = async |hold: Hold| {
        tokio::spawn(hold.run(async |_| std::future::pending().await));
        SWITCHING
    };
    for (route, logged) in [
        (on_post(async || StatusCode::FORBIDDEN).route_layer(layer()), 0),
        (on_post(async || SWITCHING).route_layer(layer()), 1),
        (on_post(async |_: Hold| SWITCHING).route_layer(layer()), 2),
        (on_post(async || SWITCHING).route_layer(layer()).route_layer(outer.clone()), 3),
        (on_post(taken).route_layer(layer()).route_layer(outer), 3),
    ] {
        let app: Router = Router::new().route("/", route);
        app.oneshot(Request::post("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(events.named("lock.upgrade_not_held").len(), logged);
    }
    assert_eq!(locks.held().len(), 1, "the last one has its lock");
}
