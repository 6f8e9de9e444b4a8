//! Sessions that hold the lock of their handler, such as that of a WebSocket: over real connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, any};
use futures_util::{SinkExt as _, StreamExt as _};
use lock_axum::{Hold, Lease, LockLayer, LockManager, OnDisconnect, distributed_lock};
use lock_core::MemoryNode;
use lock_support::eventually_async;
use lock_support::http::{Counter, PATIENCE, is_free, manager, nodes, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite};

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// What a test sees of the sessions and steers in their handlers.
#[derive(Clone, Default, FromRef)]
pub(crate) struct Service {
    pub(crate) probe: Probe,
}

#[derive(Clone, Default)]
pub(crate) struct Probe {
    pub(crate) handlers: Counter,
    pub(crate) hung_up: Counter,
    pub(crate) sessions: Counter,
    pub(crate) ended: Counter,
    pub(crate) go_on: Arc<Notify>,
    pub(crate) kept: Arc<Mutex<Option<Hold>>>,
}

/// A session that answers each message with the token of its lock, until its client leaves.
async fn tell_token(mut socket: WebSocket, lease: Lease, probe: Probe) {
    let _ended = probe.ended.on_drop();
    probe.sessions.add();
    assert_eq!(Lease::current().map(|current| current.token()), Some(lease.token()));
    while let Some(Ok(Message::Text(_))) = socket.recv().await {
        _ = socket.send(Message::Text(lease.token().to_string().into())).await;
    }
}

async fn by_layer(State(probe): State<Probe>, ws: WebSocketUpgrade, hold: Hold) -> Response {
    ws.on_upgrade(move |socket| hold.run(async |lease| tell_token(socket, lease, probe).await))
}

#[distributed_lock(resource = "r", hold = "session", max_hold = "1h", wait = "0s", ttl = "300ms")]
async fn by_attribute(State(probe): State<Probe>, ws: WebSocketUpgrade, hold: Hold) -> Response {
    ws.on_upgrade(move |socket| hold.run(async |lease| tell_token(socket, lease, probe).await))
}

pub(crate) fn layer(locks: &LockManager) -> LockLayer {
    LockLayer::new(locks.clone(), "r").wait(Duration::ZERO).ttl(Duration::from_millis(300)).hold_until_session_end(HOUR)
}

/// The same session with the attribute and under the layer.
async fn services(locks: &LockManager) -> [(SocketAddr, Probe); 2] {
    let (attribute, layered) = (Service::default(), Service::default());
    let by_attribute = Router::new().route("/", any(by_attribute)).with_state(attribute.clone());
    let by_layer = Router::new().route("/", any(by_layer).layer(layer(locks))).with_state(layered.clone());
    [(serve(by_attribute, locks).await, attribute.probe), (serve(by_layer, locks).await, layered.probe)]
}

type Client = WebSocketStream<TcpStream>;

/// Opens a session, or has it refused.
async fn open(address: SocketAddr) -> Result<Client, Error> {
    let stream = TcpStream::connect(address).await?;
    client_async("ws://localhost/", stream).await.map(|(client, _)| client)
}

/// The status with which a session is refused.
async fn refused(address: SocketAddr) -> StatusCode {
    match open(address).await {
        Err(Error::Http(response)) => response.status(),
        other => panic!("not refused: {other:?}"),
    }
}

/// The token of the session's lock.
async fn ask(client: &mut Client) -> u64 {
    client.send("which?".into()).await.unwrap();
    client.next().await.unwrap().unwrap().to_text().unwrap().parse().unwrap()
}

/// Waits for the end of a session: without a word, or with the frame that closes it.
async fn closed(client: &mut Client) -> Option<tungstenite::Message> {
    let end = timeout(PATIENCE, client.next()).await.expect("the socket is closed");
    end.and_then(Result::ok)
}

pub(crate) async fn becomes_free(nodes: &[MemoryNode], resource: &str) {
    eventually_async("the lock is free", async || is_free(nodes, resource).await).await;
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_session_holds_its_lock_and_the_next_client_is_refused_until_it_ends() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for (address, probe) in services(&locks).await {
        let mut first = open(address).await.unwrap();
        let token = ask(&mut first).await;
        // Renewed beyond its time to live.
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(refused(address).await, StatusCode::CONFLICT);
        }
        assert_eq!(ask(&mut first).await, token);
        first.close(None).await.unwrap();
        becomes_free(&nodes, "r").await;
        let mut second = open(address).await.unwrap();
        assert!(ask(&mut second).await > token);
        drop(second);
        probe.ended.reaches(2).await;
        becomes_free(&nodes, "r").await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_loss_closes_the_socket_of_the_session() {
    let losses: [fn(&MemoryNode); 2] = [MemoryNode::forget, |node| node.set_down(true)];
    for lose in losses {
        for of_attribute in [true, false] {
            let nodes = nodes();
            let locks = manager(&nodes);
            let [attribute, layered] = services(&locks).await;
            let (address, probe) = if of_attribute { attribute } else { layered };
            let mut client = open(address).await.unwrap();
            ask(&mut client).await;
            nodes.iter().take(3).for_each(lose);
            assert_eq!(closed(&mut client).await, None, "the session had no chance to say anything");
            assert_eq!(probe.ended.get(), 1);
            assert!(locks.held().is_empty());
        }
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_session_ends_at_its_max_hold() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "r").hold_until_session_end(Duration::from_millis(200));
    let app = Router::new().route("/", any(by_layer).layer(layer)).with_state(Service::default());
    let mut client = open(serve(app, &locks).await).await.unwrap();
    assert_eq!(closed(&mut client).await, None);
    becomes_free(&nodes, "r").await;
}

// promise: bodies-and-sessions
#[tokio::test]
async fn with_continue_a_session_notices_the_loss_and_takes_its_leave() {
    #[distributed_lock(resource = "r", hold = "session", max_hold = "200ms", on_lost = "continue")]
    async fn polite(ws: WebSocketUpgrade, hold: Hold) -> Response {
        ws.on_upgrade(|mut socket| {
            hold.run(async move |lease| {
                lease.lost().await;
                _ = socket.send(Message::Close(None)).await;
            })
        })
    }
    let locks = manager(&nodes());
    let mut client = open(serve(Router::new().route("/", any(polite)), &locks).await).await.unwrap();
    assert_eq!(closed(&mut client).await, Some(tungstenite::Message::Close(None)));
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_shutdown_waits_for_sessions_and_cuts_them_after_its_grace() {
    for grace in [PATIENCE, Duration::ZERO] {
        let nodes = nodes();
        let locks = manager(&nodes);
        let [(address, probe), _] = services(&locks).await;
        let mut client = open(address).await.unwrap();
        ask(&mut client).await;
        let down = tokio::spawn({
            let locks = locks.clone();
            async move { locks.shutdown(grace).await }
        });
        let cut = grace.is_zero();
        if cut {
            assert_eq!(closed(&mut client).await, None);
        } else {
            eventually_async("the shutdown begins", async || locks.lock("other").try_acquire().await.is_err()).await;
            ask(&mut client).await;
            client.close(None).await.unwrap();
        }
        let report = down.await.unwrap();
        assert_eq!((report.released, report.revoked), if cut { (0, 1) } else { (1, 0) });
        probe.ended.reaches(1).await;
        becomes_free(&nodes, "r").await;
    }
}

/// The head of a request for an upgrade.
const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

// promise: bodies-and-sessions
#[tokio::test]
async fn a_client_that_hangs_up_before_its_upgrade_completes_leaves_nothing_behind() {
    async fn slow(State(probe): State<Probe>, ws: WebSocketUpgrade, hold: Hold) -> Response {
        probe.handlers.add();
        probe.go_on.notified().await;
        by_layer(State(probe), ws, hold).await
    }
    /// Outside of the lock: dropped when the server notices that its client is gone.
    async fn until_hang_up(State(probe): State<Probe>, request: Request, next: Next) -> Response {
        let _hung_up = probe.hung_up.on_drop();
        next.run(request).await
    }
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Cancel] {
        let nodes = nodes();
        let locks = manager(&nodes);
        let Service { probe } = Service::default();
        let route: MethodRouter<Service> = any(slow).layer(layer(&locks).on_disconnect(on_disconnect));
        let route = route.layer(from_fn_with_state(probe.clone(), until_hang_up));
        let app = Router::new().route("/", route).with_state(Service { probe: probe.clone() });
        let mut stream = TcpStream::connect(serve(app, &locks).await).await.unwrap();
        stream.write_all(HANDSHAKE).await.unwrap();
        probe.handlers.reaches(1).await;
        drop(stream);
        probe.hung_up.reaches(1).await;
        if on_disconnect == OnDisconnect::Finish {
            probe.go_on.notify_one();
        }
        becomes_free(&nodes, "r").await;
        assert_eq!(probe.sessions.get(), 0);
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_after_its_upgrade_has_a_session_until_it_leaves() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for (address, probe) in services(&locks).await {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(HANDSHAKE).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        probe.sessions.reaches(1).await;
        assert!(!is_free(&nodes, "r").await);
        drop(stream);
        becomes_free(&nodes, "r").await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_session_of_an_inner_lock_outlives_the_outer_one_on_the_same_resource() {
    let nodes = nodes();
    let locks = manager(&nodes);
    // The outermost acquires the lock, so its settings decide, as for everything else inside of its scope.
    let outer = LockLayer::new(locks.clone(), "r").max_hold(HOUR);
    let unrelated = LockLayer::new(locks.clone(), "other");
    for (route, is_layered) in [(any(by_attribute), false), (any(by_layer).layer(layer(&locks)), true)] {
        let service = Service::default();
        let route: MethodRouter<Service> = route.layer(outer.clone());
        let route: MethodRouter<Service> = route.layer(unrelated.clone());
        let app = Router::new().route("/", route).with_state(service.clone());
        let mut client = open(serve(app, &locks).await).await.unwrap();
        ask(&mut client).await;
        becomes_free(&nodes, "other").await;
        assert!(!is_free(&nodes, "r").await, "layered: {is_layered}");
        client.close(None).await.unwrap();
        service.probe.ended.reaches(1).await;
        becomes_free(&nodes, "r").await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn an_outer_lock_on_the_same_resource_decides_how_long_a_session_may_last() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let outer = LockLayer::new(locks.clone(), "r").max_hold(Duration::from_millis(200));
    let app = Router::new().route("/", any(by_attribute).layer(outer)).with_state(Service::default());
    let mut client = open(serve(app, &locks).await).await.unwrap();
    assert_eq!(closed(&mut client).await, None);
    becomes_free(&nodes, "r").await;
}
