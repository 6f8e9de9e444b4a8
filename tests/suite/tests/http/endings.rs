//! Guarded requests that end early: the client disconnects, the handler panics, the service shuts down.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::{Lease, LockLayer, LockManager, OnDisconnect, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{Counter, PATIENCE, is_free, manager, nodes, post, request, send, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Counts how far handlers get.
#[derive(Clone, Default)]
struct Progress {
    started: Counter,
    finished: Counter,
    ended: Counter,
}

impl Progress {
    async fn work(&self, duration: Duration) {
        let _ended = self.ended.on_drop();
        self.started.add();
        sleep(duration).await;
        assert!(Lease::current().unwrap().is_valid(), "the lock is held to the end");
        self.finished.add();
    }
}

/// Sends a request, and disconnects as soon as its handler runs.
async fn disconnect(address: std::net::SocketAddr, progress: &Progress) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    progress.started.reaches(1).await;
    drop(stream);
}

#[tokio::test]
async fn finish_lets_the_handler_complete_and_shutdown_waits_for_it() {
    #[distributed_lock(resource = "r", ttl = "200ms")]
    async fn handler(State(progress): State<Progress>) {
        progress.work(Duration::from_millis(700)).await;
    }
    let (nodes, progress) = (nodes(), Progress::default());
    let locks = manager(&nodes);
    let address = serve(Router::new().route("/", on_post(handler)).with_state(progress.clone()), &locks).await;
    disconnect(address, &progress).await;
    let report = locks.shutdown(PATIENCE).await;
    assert_eq!((report.released, report.revoked), (1, 0));
    assert_eq!((progress.finished.get(), progress.ended.get()), (1, 1));
    assert!(nodes.iter().all(|node| node.lock_keys().is_empty()), "shutdown waited for the release");
}

// promise: no-leaks
#[tokio::test]
async fn cancel_drops_the_handler_and_releases() {
    #[distributed_lock(resource = "r", on_disconnect = "cancel")]
    async fn handler(State(progress): State<Progress>) {
        progress.work(Duration::from_secs(60)).await;
    }
    let (nodes, progress) = (nodes(), Progress::default());
    let address =
        serve(Router::new().route("/", on_post(handler)).with_state(progress.clone()), &manager(&nodes)).await;
    disconnect(address, &progress).await;
    progress.ended.reaches(1).await;
    assert_eq!(progress.finished.get(), 0);
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}

#[tokio::test]
async fn the_layer_finishes_and_cancels_as_the_attribute_does() {
    async fn handler(State(progress): State<Progress>) {
        progress.work(Duration::from_millis(500)).await;
    }
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Cancel] {
        let (nodes, progress) = (nodes(), Progress::default());
        let locks = manager(&nodes);
        let layer = LockLayer::new(locks.clone(), "r").on_disconnect(on_disconnect);
        let app = Router::new().route("/", on_post(handler)).route_layer(layer).with_state(progress.clone());
        disconnect(serve(app, &locks).await, &progress).await;
        progress.ended.reaches(1).await;
        assert_eq!(progress.finished.get(), usize::from(on_disconnect == OnDisconnect::Finish), "{on_disconnect:?}");
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    }
}

// promise: no-leaks
#[tokio::test]
async fn a_panic_releases_the_lock_and_propagates_to_the_server() {
    #[distributed_lock(resource = "macro")]
    async fn by_macro() {
        panic!("on purpose");
    }
    async fn by_layer() {
        panic!("on purpose");
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "layer");
    let app = Router::new()
        .route("/layer", on_post(by_layer))
        .route_layer(layer)
        .route("/macro", on_post(by_macro))
        .route("/alive", on_post(async || "yes"));
    let address = serve(app, &locks).await;
    for resource in ["macro", "layer"] {
        let request = request(&format!("/{resource}")).body(axum::body::Body::empty()).unwrap();
        assert!(send(address, request).await.is_err(), "the connection ends, as it does without a lock");
        eventually_async("the lock is free", async || is_free(&nodes, resource).await).await;
    }
    assert_eq!(post(address, "/alive").await.text(), "yes");
}

/// Serves until a signal comes, as a service does. Returns the address, the signal, and the end of the server.
async fn serve_until(
    app: Router,
    locks: &LockManager,
) -> (std::net::SocketAddr, oneshot::Sender<()>, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let (done, ended) = oneshot::channel();
    let app = app.layer(axum::Extension(locks.clone()));
    let serving = axum::serve(listener, app).with_graceful_shutdown(locks.close_on(stopped));
    tokio::spawn(async move {
        serving.await.unwrap();
        _ = done.send(());
    });
    (address, stop, ended)
}

#[tokio::test]
async fn a_graceful_shutdown_lets_holders_complete_and_rejects_waiters() {
    #[distributed_lock(resource = "r", wait = "20s")]
    async fn handler(State(progress): State<Progress>) -> &'static str {
        progress.work(Duration::from_millis(500)).await;
        "done"
    }
    let (nodes, progress) = (nodes(), Progress::default());
    let locks = manager(&nodes);
    let app = Router::new().route("/", on_post(handler)).with_state(progress.clone());
    let (address, stop, ended) = serve_until(app, &locks).await;
    let holder = tokio::spawn(async move { post(address, "/").await });
    progress.started.reaches(1).await;
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(async move { post(address, "/").await })).collect();
    // They wait once their first attempt has failed; closing before that rejects them just the same.
    sleep(Duration::from_millis(50)).await;

    stop.send(()).unwrap();
    for waiter in waiters {
        let response = waiter.await.unwrap();
        assert_eq!((response.status, response.kind().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "lock-unavailable"));
        assert!(response.retry_after().is_some());
        assert_eq!(progress.finished.get(), 0, "rejected at once, not after the holder");
    }
    let response = holder.await.unwrap();
    assert_eq!((response.status, response.text()), (StatusCode::OK, "done"));
    timeout(PATIENCE, ended).await.unwrap().unwrap();
    locks.shutdown(PATIENCE).await;
    assert!(nodes.iter().all(|node| node.lock_keys().is_empty()));
}

#[tokio::test]
async fn holders_are_cancelled_after_the_grace_period() {
    #[distributed_lock(resource = "r")]
    async fn handler(State(progress): State<Progress>) {
        progress.work(Duration::from_secs(60)).await;
    }
    let (nodes, progress) = (nodes(), Progress::default());
    let locks = manager(&nodes);
    let address = serve(Router::new().route("/", on_post(handler)).with_state(progress.clone()), &locks).await;
    let holder = tokio::spawn(async move { post(address, "/").await });
    progress.started.reaches(1).await;
    let report = locks.shutdown(Duration::from_millis(100)).await;
    assert_eq!((report.released, report.revoked), (0, 1));
    let response = holder.await.unwrap();
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost"));
    assert_eq!((progress.finished.get(), progress.ended.get()), (0, 1));
    assert!(nodes.iter().all(|node| node.lock_keys().is_empty()));
}
