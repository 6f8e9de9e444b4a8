//! Permits of handlers: with the layer, with the attribute, and of functions.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::http::{Request, StatusCode};
use axum::routing::post as on_post;
use futures_util::future::join_all;
use lock_axum::{Lease, LockError, LockLayer, LockManager, distributed_lock};
use lock_support::http::{manager, nodes};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// Handlers run until there is a permit in here.
type Gate = Arc<Semaphore>;

async fn wait_at(gate: &Gate) {
    gate.acquire().await.unwrap().forget();
}

#[distributed_lock(resource = "export:{tenant}", permits = 2, wait = "50ms")]
async fn guarded(Path(tenant): Path<String>, Extension(gate): Extension<Gate>, lease: Lease) -> String {
    wait_at(&gate).await;
    format!("{tenant} {}", lease.resource())
}

async fn inner(Extension(gate): Extension<Gate>, lease: Lease) -> String {
    wait_at(&gate).await;
    lease.resource().to_owned()
}

async fn body_of(app: &Router, path: &str) -> (StatusCode, String) {
    let response = app.clone().oneshot(Request::post(path).body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Two requests are let in, and a third one is not.
async fn lets_two_in(path: &'static str, slots: [&str; 2]) {
    let locks = manager(&nodes());
    let gate = Gate::new(Semaphore::new(0));
    let layer = LockLayer::new(locks.clone(), "report").permits(2).wait(Duration::from_millis(50));
    let app = Router::new()
        .route("/export/{tenant}", on_post(guarded))
        .route("/report", on_post(inner).route_layer(layer))
        .layer(Extension(locks.clone()))
        .layer(Extension(Arc::clone(&gate)));
    let running: Vec<_> = (0..2)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { body_of(&app, path).await })
        })
        .collect();
    lock_support::eventually("two run", || locks.held().len() == 2).await;
    let (status, problem) = body_of(&app, path).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    gate.add_permits(2);
    let mut answers = Vec::new();
    for running in running {
        let (status, body) = running.await.unwrap();
        assert_eq!(status, StatusCode::OK, "{body}");
        answers.push(body);
    }
    answers.sort();
    assert_eq!(answers, slots);
}

// promise: permits
#[tokio::test]
async fn the_attribute_lets_as_many_in_as_there_are_permits() {
    lets_two_in("/export/a", ["a export:a{0}", "a export:a{1}"]).await;
}

// promise: permits
#[tokio::test]
async fn the_layer_lets_as_many_in_as_there_are_permits() {
    lets_two_in("/report", ["report{0}", "report{1}"]).await;
}

#[distributed_lock(resource = "job", permits = 1, manager = locks, wait = "0s")]
async fn job(locks: &LockManager) -> Result<Option<u32>, LockError> {
    // Inside its own scope, it is the same permit.
    let again = locks.permits("job", 1).try_acquire().await?;
    Ok(Lease::current().and_then(|lease| lease.slot()).filter(|slot| Some(*slot) == again.slot()))
}

// promise: permits
#[tokio::test]
async fn a_function_has_a_permit() {
    let locks = manager(&nodes());
    assert_eq!(job(&locks).await.unwrap(), Some(0));
    let _held = locks.permits("job", 1).acquire().await.unwrap();
    assert!(matches!(job(&locks).await, Err(LockError::Contended { .. })));
}

#[distributed_lock(resource = "export:{tenant}", permits = 2, adopt = true, wait = "0s")]
async fn adopting(Path(tenant): Path<String>, lease: Lease) -> String {
    format!("{tenant} {} {}", lease.resource(), lease.token())
}

async fn carrying(app: &Router, path: &str, lease: &Lease) -> (StatusCode, String) {
    let delegation = lease.delegate().create().unwrap();
    let request = Request::post(path).header(delegation.name(), delegation.value()).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

// promise: permits
#[tokio::test]
async fn a_handler_with_permits_adopts_one_that_was_delegated_and_nothing_else() {
    let nodes = nodes();
    let (holder, service) = (manager(&nodes), manager(&nodes));
    let app = Router::new().route("/export/{tenant}", on_post(adopting)).layer(Extension(service));
    let permit = holder.permits("export:a", 2).acquire().await.unwrap();
    let (status, body) = carrying(&app, "/export/a", &permit).await;
    assert_eq!((status, body), (StatusCode::OK, format!("a {} {}", permit.resource(), permit.token())));
    // Of another resource, of the lock, and a slot that this handler does not give out.
    let (other, lock) = (holder.permits("export:b", 2), holder.lock("export:a").acquire().await.unwrap());
    let other = other.acquire().await.unwrap();
    let many: Vec<_> = join_all((0..3).map(|_| holder.permits("export:a", 4).acquire())).await;
    let beyond = many.iter().flatten().find(|permit| permit.slot() >= Some(2)).unwrap();
    for lease in [other.lease(), lock.lease(), beyond.lease()] {
        let (status, problem) = carrying(&app, "/export/a", &lease).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{}: {problem}", lease.resource());
    }
}
