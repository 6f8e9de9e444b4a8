//! How a guarded request can end before its time: the client hangs up, the handler panics, the service stops.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::{Lease, LockLayer, LockManager, OnDisconnect, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{Counter, PATIENCE, is_free, manager, masters, post, request, send, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

#[derive(Clone, Default)]
struct Watch {
    started: Counter,
    finished: Counter,
    ended: Counter,
}

impl Watch {
    async fn work(&self, duration: Duration) {
        let _ended = self.ended.on_drop();
        self.started.add();
        sleep(duration).await;
        assert!(Lease::current().unwrap().is_valid(), "the lock is held to the end");
        self.finished.add();
    }
}

/// Sends a request and hangs up as soon as its handler runs.
async fn hang_up(address: std::net::SocketAddr, watch: &Watch) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    watch.started.reaches(1).await;
    drop(stream);
}

#[tokio::test]
async fn finish_lets_the_handler_end_and_shutdown_waits_for_it() {
    #[distributed_lock(resource = "r", ttl = "200ms")]
    async fn handler(State(watch): State<Watch>) {
        watch.work(Duration::from_millis(700)).await;
    }
    let (masters, watch) = (masters(), Watch::default());
    let locks = manager(&masters);
    let address = serve(Router::new().route("/", on_post(handler)).with_state(watch.clone()), &locks).await;
    hang_up(address, &watch).await;
    let report = locks.shutdown(PATIENCE).await;
    assert_eq!((report.released, report.revoked), (1, 0));
    assert_eq!((watch.finished.get(), watch.ended.get()), (1, 1));
    assert!(masters.iter().all(|master| master.lock_keys().is_empty()), "shutdown waited for the release");
}

#[tokio::test]
async fn cancel_drops_the_handler_and_releases() {
    #[distributed_lock(resource = "r", on_disconnect = "cancel")]
    async fn handler(State(watch): State<Watch>) {
        watch.work(Duration::from_secs(60)).await;
    }
    let (masters, watch) = (masters(), Watch::default());
    let address = serve(Router::new().route("/", on_post(handler)).with_state(watch.clone()), &manager(&masters)).await;
    hang_up(address, &watch).await;
    watch.ended.reaches(1).await;
    assert_eq!(watch.finished.get(), 0);
    eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
}

#[tokio::test]
async fn the_layer_finishes_and_cancels_as_the_macro_does() {
    async fn handler(State(watch): State<Watch>) {
        watch.work(Duration::from_millis(500)).await;
    }
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Cancel] {
        let (masters, watch) = (masters(), Watch::default());
        let locks = manager(&masters);
        let layer = LockLayer::new(locks.clone(), "r").on_disconnect(on_disconnect);
        let app = Router::new().route("/", on_post(handler)).route_layer(layer).with_state(watch.clone());
        hang_up(serve(app, &locks).await, &watch).await;
        watch.ended.reaches(1).await;
        assert_eq!(watch.finished.get(), usize::from(on_disconnect == OnDisconnect::Finish), "{on_disconnect:?}");
        eventually_async("the lock is free", async || is_free(&masters, "r").await).await;
    }
}

#[tokio::test]
async fn a_panic_releases_and_goes_on_to_the_server() {
    #[distributed_lock(resource = "macro")]
    async fn by_macro() {
        panic!("on purpose");
    }
    async fn by_layer() {
        panic!("on purpose");
    }
    let masters = masters();
    let locks = manager(&masters);
    let layer = LockLayer::new(locks.clone(), "layer");
    let app = Router::new()
        .route("/layer", on_post(by_layer))
        .route_layer(layer)
        .route("/macro", on_post(by_macro))
        .route("/alive", on_post(async || "yes"));
    let address = serve(app, &locks).await;
    for resource in ["macro", "layer"] {
        let request = request(&format!("/{resource}")).body(axum::body::Body::empty()).unwrap();
        assert!(send(address, request).await.is_err(), "as without a lock: the connection ends");
        eventually_async("the lock is free", async || is_free(&masters, resource).await).await;
    }
    assert_eq!(post(address, "/alive").await.text(), "yes");
}

/// Serves until the signal, as a service does.
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
async fn a_graceful_shutdown_lets_holders_end_and_turns_waiters_away() {
    #[distributed_lock(resource = "r", wait = "20s")]
    async fn handler(State(watch): State<Watch>) -> &'static str {
        watch.work(Duration::from_millis(500)).await;
        "done"
    }
    let (masters, watch) = (masters(), Watch::default());
    let locks = manager(&masters);
    let app = Router::new().route("/", on_post(handler)).with_state(watch.clone());
    let (address, stop, ended) = serve_until(app, &locks).await;
    let holder = tokio::spawn(async move { post(address, "/").await });
    watch.started.reaches(1).await;
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(async move { post(address, "/").await })).collect();
    // They wait once their first attempt has failed; closing before that turns them away just the same.
    sleep(Duration::from_millis(50)).await;

    stop.send(()).unwrap();
    for waiter in waiters {
        let answer = waiter.await.unwrap();
        assert_eq!((answer.status, answer.kind().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "lock-unavailable"));
        assert!(answer.retry_after().is_some());
        assert_eq!(watch.finished.get(), 0, "turned away at once, not after the holder");
    }
    let answer = holder.await.unwrap();
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "done"));
    timeout(PATIENCE, ended).await.unwrap().unwrap();
    locks.shutdown(PATIENCE).await;
    assert!(masters.iter().all(|master| master.lock_keys().is_empty()));
}

#[tokio::test]
async fn holders_are_cut_off_after_the_grace() {
    #[distributed_lock(resource = "r")]
    async fn handler(State(watch): State<Watch>) {
        watch.work(Duration::from_secs(60)).await;
    }
    let (masters, watch) = (masters(), Watch::default());
    let locks = manager(&masters);
    let address = serve(Router::new().route("/", on_post(handler)).with_state(watch.clone()), &locks).await;
    let holder = tokio::spawn(async move { post(address, "/").await });
    watch.started.reaches(1).await;
    let report = locks.shutdown(Duration::from_millis(100)).await;
    assert_eq!((report.released, report.revoked), (0, 1));
    let answer = holder.await.unwrap();
    assert_eq!((answer.status, answer.kind().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost"));
    assert_eq!((watch.finished.get(), watch.ended.get()), (0, 1));
    assert!(masters.iter().all(|master| master.lock_keys().is_empty()));
}
