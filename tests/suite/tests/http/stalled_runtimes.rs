//! Guarded handlers on one runtime, while the one on which the manager was first used does not run any more. In real time, by
//! nature.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::{Lease, LockLayer, LockManager, distributed_lock, readyz};
use lock_support::http::{manager, nodes, request};
use lock_support::{StalledRuntime, ends_in_time, on_one_thread, whatever_becomes_of_it};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tower::ServiceExt as _;

use crate::dashboard::{self, Page};

/// Where a handler reports until when it may run.
#[derive(Clone, Default)]
struct Ends(Arc<(std::sync::Mutex<Option<Instant>>, Notify)>);

impl Ends {
    /// What a handler does: it reports when its lease ends, and goes on for ever.
    async fn work(&self, lease: &Lease) {
        *self.0.0.lock().unwrap() = Some(Instant::now() + lease.remaining());
        self.0.1.notify_one();
        std::future::pending::<()>().await;
    }

    async fn reported(&self) -> Instant {
        self.0.1.notified().await;
        self.0.0.lock().unwrap().unwrap()
    }
}

/// Checks that a guarded handler ends with its lease.
fn ends_with_its_lease(app: impl Fn(&LockManager, Ends) -> Router + Sync) {
    whatever_becomes_of_it(|fate| {
        let locks = manager(&nodes());
        let (_, _stalled) = StalledRuntime::after(fate, locks.health());
        on_one_thread().block_on(async {
            let ends = Ends::default();
            let app = app(&locks, ends.clone()).layer(Extension(locks.clone()));
            let answered = async {
                let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
                assert_eq!(response.status(), 500);
            };
            ends_in_time(answered, ends.reported()).await;
        });
    });
}

// promise: reported-losses
#[test]
fn a_handler_under_the_layer_ends_with_its_lease_whatever_the_first_runtime_does() {
    async fn handler(State(ends): State<Ends>, lease: Lease) {
        ends.work(&lease).await;
    }
    ends_with_its_lease(|locks, ends| {
        let layer = LockLayer::new(locks.clone(), "r").max_hold(Duration::from_millis(300));
        Router::new().route("/", on_post(handler)).route_layer(layer).with_state(ends)
    });
}

// promise: reported-losses
#[test]
fn a_handler_with_the_attribute_ends_with_its_lease_whatever_the_first_runtime_does() {
    #[distributed_lock(resource = "r", max_hold = "300ms")]
    async fn handler(State(ends): State<Ends>, lease: Lease) {
        ends.work(&lease).await;
    }
    ends_with_its_lease(|_, ends| Router::new().route("/", on_post(handler)).with_state(ends));
}

// promise: any-runtime
#[test]
fn a_probe_is_answered_whatever_the_runtime_of_an_earlier_one_does() {
    whatever_becomes_of_it(|fate| {
        let nodes = nodes();
        let locks = manager(&nodes);
        let app = Router::new().route("/readyz", readyz(locks.clone()));
        let probe = || app.clone().oneshot(Request::get("/readyz").body(Body::empty()).unwrap());
        let (_, _stalled) = StalledRuntime::after(fate, async {
            assert!(locks.health().await.quorum);
            nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(50)));
            tokio::spawn(probe());
            tokio::task::yield_now().await;
        });
        on_one_thread().block_on(async {
            let answer = timeout(Duration::from_secs(20), probe()).await.expect("it is answered").unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
        });
    });
}

// promise: any-runtime
#[test]
fn a_page_shows_the_masters_whatever_the_runtime_of_an_earlier_one_does() {
    whatever_becomes_of_it(|fate| {
        let nodes = nodes();
        let locks = manager(&nodes);
        let app = dashboard::app(&locks);
        let (_, _stalled) = StalledRuntime::after(fate, async {
            assert!(locks.health().await.quorum);
            nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(50)));
            let state = Page::open(&app).await.next().await.unwrap();
            assert!(state["quorum"].is_null(), "they are being asked: {state}");
        });
        on_one_thread().block_on(async {
            let mut page = Page::open(&app).await;
            let shown = async { while page.next().await.unwrap()["quorum"] != true {} };
            timeout(Duration::from_secs(20), shown).await.expect("they are shown");
        });
    });
}
