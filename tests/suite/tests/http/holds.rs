//! Holds: sessions that begin late or never, and when their lock is released. Without a connection, but for one test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, any};
use axum::{Extension, Router};
use lock_axum::{FencingToken, Hold, Lease, LockLayer, LockManager, OnLost, distributed_lock};
use lock_core::MemoryNode;
use lock_support::Events;
use lock_support::http::{is_free, manager, nodes, post, request, serve};
use tower::ServiceExt as _;

use crate::sessions::{HOUR, Probe, Service, becomes_free, layer};

/// Keeps the hold where nobody runs it, as an upgrade does whose answer a middleware has replaced.
#[distributed_lock(resource = "r", hold = "session", max_hold = "1h")]
async fn keep(State(probe): State<Probe>, hold: Hold) -> StatusCode {
    *probe.kept.lock().unwrap() = Some(hold);
    StatusCode::IM_A_TEAPOT
}

/// A service in this process, without a server.
fn local(route: MethodRouter<Service>, locks: &LockManager) -> (Router, Probe) {
    let service = Service::default();
    let app = Router::new().route("/", route).layer(Extension(locks.clone())).with_state(service.clone());
    (app, service.probe)
}

async fn call(app: Router) -> StatusCode {
    app.oneshot(request("/").body(Body::empty()).unwrap()).await.into_response().status()
}

// promise: bodies-and-sessions
#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_begin_within_ten_seconds_releases_its_lock() {
    let events = Events::record();
    let locks = manager(&nodes());
    let (app, probe) = local(any(keep), &locks);
    assert_eq!(call(app).await, StatusCode::IM_A_TEAPOT);
    tokio::time::sleep(Duration::from_millis(9_900)).await;
    assert_eq!(locks.held().len(), 1, "there is still time");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(locks.held().is_empty());
    assert_eq!(events.named("lock.session_not_begun").len(), 1);
    let hold = probe.kept.lock().unwrap().take().unwrap();
    hold.run(async |_| probe.sessions.add()).await;
    assert_eq!(probe.sessions.get(), 0, "it would run without the lock");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_began_in_time_is_not_ended_after_ten_seconds() {
    let events = Events::record();
    let locks = manager(&nodes());
    let (app, probe) = local(any(keep), &locks);
    call(app).await;
    let hold = probe.kept.lock().unwrap().take().unwrap();
    hold.run(async |lease| {
        tokio::time::sleep(HOUR / 2).await;
        assert!(lease.is_valid());
        probe.sessions.add();
    })
    .await;
    assert_eq!(probe.sessions.get(), 1);
    assert!(locks.held().is_empty() && events.named("lock.session_not_begun").is_empty());
}

// promise: bodies-and-sessions
#[tokio::test(start_paused = true)]
async fn a_session_whose_lock_was_lost_before_it_began_is_not_run() {
    async fn keep(State(probe): State<Probe>, hold: Hold) {
        *probe.kept.lock().unwrap() = Some(hold);
    }
    async fn waste_time(State(probe): State<Probe>, lease: Lease, hold: Hold) {
        lease.lost().await;
        hold.run(async |_| probe.sessions.add()).await;
        probe.handlers.add();
    }
    let second = Duration::from_secs(1);
    for on_lost in [OnLost::Cancel, OnLost::Continue] {
        let locks = manager(&nodes());
        let (app, probe) = local(any(keep).layer(layer(&locks).on_lost(on_lost).max_hold(second)), &locks);
        assert_eq!(call(app).await, StatusCode::OK);
        tokio::time::sleep(2 * second).await;
        let hold = probe.kept.lock().unwrap().take().unwrap();
        hold.run(async |_| probe.sessions.add()).await;
        assert_eq!(probe.sessions.get(), 0, "{on_lost:?}");
    }
    let locks = manager(&nodes());
    let (app, probe) = local(any(waste_time).layer(layer(&locks).on_lost(OnLost::Continue).max_hold(second)), &locks);
    assert_eq!(call(app).await, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!((probe.handlers.get(), probe.sessions.get()), (1, 0), "the handler goes on, but begins no session");
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_handler_that_answers_without_a_session_releases_its_lock() {
    #[distributed_lock(resource = "r", hold = "session", max_hold = "1h")]
    async fn refuses(_hold: Hold) -> StatusCode {
        StatusCode::FORBIDDEN
    }
    /// Extracts no hold, and passes its request on to something that outlives it.
    async fn passes_on(State(probe): State<Probe>, request: Request) -> StatusCode {
        tokio::spawn(async move {
            let _request = request;
            probe.go_on.notified().await;
        });
        StatusCode::OK
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    for (route, status) in [
        (any(refuses), StatusCode::FORBIDDEN),
        (any(async |_hold: Hold| StatusCode::FORBIDDEN).layer(layer(&locks)), StatusCode::FORBIDDEN),
        (any(passes_on).layer(layer(&locks)), StatusCode::OK),
        // Not an upgrade: the extractor refuses it, after the hold was extracted.
        (any(async |_hold: Hold, _: WebSocketUpgrade| ()).layer(layer(&locks)), StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let (app, _probe) = local(route, &locks);
        assert_eq!(call(app).await, status);
        assert!(locks.held().is_empty(), "{status}");
        becomes_free(&nodes, "r").await;
    }
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_hold_that_is_dropped_in_a_task_releases_the_lock() {
    #[distributed_lock(resource = "r", hold = "session", max_hold = "1h")]
    async fn drops(State(probe): State<Probe>, hold: Hold) {
        tokio::spawn(async move {
            let _hold = hold;
            probe.go_on.notified().await;
        });
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let (app, probe) = local(any(drops), &locks);
    assert_eq!(call(app).await, StatusCode::OK);
    assert!(!is_free(&nodes, "r").await, "the task has the hold");
    probe.go_on.notify_one();
    becomes_free(&nodes, "r").await;
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_session_that_ends_before_its_handler_leaves_it_the_lock() {
    #[distributed_lock(resource = "r", hold = "session", max_hold = "1h")]
    async fn inside(Extension(nodes): Extension<Vec<MemoryNode>>, lease: Lease, hold: Hold) {
        let token = lease.token();
        hold.run(async |lease| assert_eq!(lease.token(), token)).await;
        assert!(lease.is_valid() && !is_free(&nodes, "r").await);
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let (app, _) = local(any(inside), &locks);
    assert_eq!(call(app.layer(Extension(nodes.clone()))).await, StatusCode::OK);
    becomes_free(&nodes, "r").await;
}

// promise: bodies-and-sessions
#[tokio::test]
async fn a_session_that_is_dropped_ends_before_its_lock_is_released() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let (app, probe) = local(any(keep), &locks);
    call(app).await;
    let hold = probe.kept.lock().unwrap().take().unwrap();
    let (sessions, dropped) = (probe.sessions.clone(), Arc::new(Mutex::new(None)));
    /// Notes whether the lease is valid when it is dropped.
    struct OnDrop(Lease, Arc<Mutex<Option<bool>>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = Some(self.0.is_valid());
        }
    }
    let witness = Arc::clone(&dropped);
    let task = tokio::spawn(hold.run(async move |lease| {
        let _on_drop = OnDrop(lease, witness);
        sessions.add();
        std::future::pending::<()>().await;
    }));
    probe.sessions.reaches(1).await;
    task.abort();
    becomes_free(&nodes, "r").await;
    assert_eq!(*dropped.lock().unwrap(), Some(true));
}

#[tokio::test]
async fn inside_a_session_the_same_lock_is_the_same_lease() {
    let locks = manager(&nodes());
    let (app, probe) = local(any(keep), &locks);
    call(app).await;
    let hold = probe.kept.lock().unwrap().take().unwrap();
    hold.run(async |lease| {
        let again = locks.lock("r").try_acquire().await.unwrap();
        assert_eq!(again.token(), lease.token());
        probe.sessions.add();
    })
    .await;
    assert_eq!(probe.sessions.get(), 1);
}

#[tokio::test]
async fn a_hold_is_extracted_once_and_only_where_there_is_one() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for route in [
        any(async |_: Hold| ()),
        any(async |_: Hold| ()).layer(LockLayer::new(locks.clone(), "r")),
        any(async |_: Hold, _: Hold| ()).layer(layer(&locks)),
    ] {
        let events = Events::record();
        let address = serve(Router::new().route("/", route), &locks).await;
        let response = post(address, "/").await;
        assert_eq!((response.status.as_u16(), &response.problem()["type"]), (500, &"about:blank".into()));
        assert_eq!(events.named("lock.no_hold").len(), 1);
        becomes_free(&nodes, "r").await;
    }
}

#[tokio::test]
async fn the_answer_to_an_upgrade_carries_the_token_of_its_session() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let (app, probe) = local(any(keep), &locks);
    let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
    let token = *response.extensions().get::<FencingToken>().unwrap();
    let hold = probe.kept.lock().unwrap().take().unwrap();
    hold.run(async |lease| assert_eq!(lease.token(), token)).await;
}
