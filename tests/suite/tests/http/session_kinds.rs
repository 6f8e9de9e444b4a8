//! Sessions under locks of other kinds than one that writes and is renewed. In virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::any;
use lock_axum::{Hold, Lease, LockLayer, LockManager};
use lock_support::eventually_async;
use lock_support::http::{manager, nodes, request};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

const HOUR: Duration = Duration::from_secs(60 * 60);
const TTL: Duration = Duration::from_secs(1);

fn layer(locks: &LockManager) -> LockLayer {
    LockLayer::new(locks.clone(), "r").wait(Duration::ZERO).ttl(TTL).hold_until_session_end(HOUR)
}

/// A session that goes on until it is told to end, or dropped.
struct Session {
    lease: Lease,
    end: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Session {
    /// Sends a request, and begins the session of its handler when that has answered.
    async fn begin(layer: &LockLayer) -> Result<Self, StatusCode> {
        type Kept = Arc<Mutex<Option<Hold>>>;
        async fn keep(State(kept): State<Kept>, hold: Hold) {
            *kept.lock().unwrap() = Some(hold);
        }
        let kept = Kept::default();
        let app = Router::new().route("/", any(keep).layer(layer.clone())).with_state(Arc::clone(&kept));
        let response = app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap();
        let hold = kept.lock().unwrap().take().ok_or(response.status())?;
        let (begun, lease) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let running = tokio::spawn(async move {
            _ = hold
                .run(async |lease| {
                    begun.send(lease).unwrap();
                    _ = ended.await;
                })
                .await;
        });
        Ok(Self { lease: lease.await.unwrap(), end, running })
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_read_share_a_hold_and_the_last_lets_a_writer_in() {
    let nodes = nodes();
    let (locks, other) = (manager(&nodes), manager(&nodes));
    let layer = layer(&locks).read();
    let (first, last) = (Session::begin(&layer).await.unwrap(), Session::begin(&layer).await.unwrap());
    assert_eq!(first.lease.token(), last.lease.token());
    sleep(TTL * 3).await;
    assert!(first.lease.is_valid() && other.read("r").try_acquire().await.is_ok());
    first.end().await;
    sleep(TTL * 3).await;
    assert!(last.lease.is_valid() && other.lock("r").try_acquire().await.is_err());
    last.end().await;
    eventually_async("a writer has it", async || other.lock("r").try_acquire().await.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn each_session_has_a_slot_until_it_ends_or_its_slot_is_taken_by_force() {
    let nodes = nodes();
    let (locks, operator) = (manager(&nodes), manager(&nodes));
    let layer = layer(&locks).permits(2);
    let (one, other) = (Session::begin(&layer).await.unwrap(), Session::begin(&layer).await.unwrap());
    assert_ne!(one.lease.slot(), other.lease.slot());
    sleep(TTL * 3).await;
    assert_eq!(Session::begin(&layer).await.err(), Some(StatusCode::CONFLICT));
    let slot = one.lease.slot();
    one.end().await;
    let next = Session::begin(&layer).await.unwrap();
    assert_eq!(next.lease.slot(), slot);
    operator.force_release(other.lease.resource()).await.unwrap();
    other.running.await.unwrap();
    assert!(!other.lease.is_valid() && next.lease.is_valid());
    let successor = Session::begin(&layer).await.unwrap();
    sleep(TTL * 3).await;
    assert!(successor.lease.is_valid() && next.lease.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_lock_is_not_renewed_ends_with_it() {
    let nodes = nodes();
    let (locks, other) = (manager(&nodes), manager(&nodes));
    let began = Instant::now();
    let session = Session::begin(&layer(&locks).renew(false)).await.unwrap();
    session.running.await.unwrap();
    assert!(began.elapsed() <= TTL && !session.lease.is_valid(), "{:?}", began.elapsed());
    eventually_async("it is free", async || other.lock("r").try_acquire().await.is_ok()).await;
}
