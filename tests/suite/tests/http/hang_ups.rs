//! Where a guarded handler runs while its client is there, and after the client hung up. In process: a client hangs up
//! when the future of its request is dropped, which is what a server does.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post as on_post;
use axum::{Extension, Router};
use futures_util::FutureExt as _;
use lock_axum::{Lease, LockLayer, LockManager, OnDisconnect, distributed_lock};
use lock_support::http::{Counter, is_free, manager, nodes, request};
use lock_support::{eventually_async, on_one_thread};
use tokio::sync::Notify;
use tower::ServiceExt as _;
use tracing::Instrument as _;

tokio::task_local! {
    /// Set by middleware outside of the lock.
    static TENANT: &'static str;
}

/// A handler that waits in the middle of its work, and what it saw after that.
#[derive(Clone, Default)]
struct Handler {
    started: Counter,
    ended: Counter,
    go_on: Arc<Notify>,
    seen: Arc<Mutex<Option<Seen>>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    task: tokio::task::Id,
    span: Option<tracing::Id>,
    lease: Option<String>,
    tenant: Option<&'static str>,
}

impl Seen {
    fn now() -> Self {
        Self {
            task: tokio::task::id(),
            span: tracing::Span::current().id(),
            lease: Lease::current().filter(Lease::is_valid).map(|lease| lease.resource().to_owned()),
            tenant: TENANT.try_with(|tenant| *tenant).ok(),
        }
    }
}

impl Handler {
    async fn work(&self) {
        let _ended = self.ended.on_drop();
        self.started.add();
        self.go_on.notified().await;
        *self.seen.lock().unwrap() = Some(Seen::now());
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Polls a request until its handler runs.
    async fn starts<F: Future>(&self, request: F)
    where
        F::Output: std::fmt::Debug,
    {
        tokio::select! {
            biased;
            response = request => unreachable!("{response:?}"),
            () = self.started.reaches(1) => {}
        }
    }
}

async fn by_layer(State(handler): State<Handler>) {
    handler.work().await;
}

#[distributed_lock(resource = "r")]
async fn by_attribute(State(handler): State<Handler>) {
    handler.work().await;
}

/// The same handler with the attribute and under the layer.
fn apps(locks: &LockManager) -> [(Router, Handler); 2] {
    [on_post(by_attribute), on_post(by_layer).route_layer(LockLayer::new(locks.clone(), "r"))].map(|route| {
        let handler = Handler::default();
        let app = Router::new().route("/", route).layer(Extension(locks.clone())).with_state(handler.clone());
        (app, handler)
    })
}

/// Sends a request, whose client hangs up when the future is dropped.
async fn call(app: Router) -> StatusCode {
    app.oneshot(request("/").body(Body::empty()).unwrap()).await.into_response().status()
}

#[tokio::test]
async fn a_handler_runs_in_the_task_of_its_request() {
    for (app, handler) in apps(&manager(&nodes())) {
        handler.go_on.notify_one();
        let request = TENANT.scope("a", async move { (call(app).await, Seen::now()) });
        let (status, outside) = tokio::spawn(request).await.unwrap();
        assert_eq!(status, 200);
        assert_eq!(handler.seen(), Some(Seen { lease: Some("r".into()), ..outside }));
        assert_eq!(outside.tenant, Some("a"));
    }
}

#[tokio::test]
async fn a_handler_whose_client_hung_up_keeps_its_lock_its_scope_and_its_span() {
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry());
    let nodes = nodes();
    for (app, handler) in apps(&manager(&nodes)) {
        let span = tracing::info_span!("request");
        handler.starts(TENANT.scope("a", call(app)).instrument(span.clone())).await;
        assert!(!is_free(&nodes, "r").await, "the handler has not ended");
        handler.go_on.notify_one();
        handler.ended.reaches(1).await;
        let seen = handler.seen().unwrap();
        assert_eq!((seen.span, seen.lease, seen.tenant), (span.id(), Some("r".into()), None));
        assert_eq!(handler.started.get(), 1);
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
    }
}

#[tokio::test]
async fn a_handler_that_panics_leaves_nothing_behind() {
    #[distributed_lock(resource = "r")]
    async fn handler() {
        tokio::task::yield_now().await;
        panic!("on purpose");
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let app = Router::new().route("/", on_post(handler)).layer(Extension(locks.clone()));
    let mut request = Box::pin(AssertUnwindSafe(call(app)).catch_unwind());
    let panic = request.as_mut().await.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"), "in the task of the request");
    assert!(locks.held().is_empty());
    drop(request);
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_leaves_nothing_behind() {
    let nodes = nodes();
    let locks = manager(&nodes);
    for (app, handler) in apps(&locks) {
        let held = manager(&nodes).lock("r").acquire().await.unwrap();
        let mut request = Box::pin(call(app));
        assert!(futures_util::poll!(&mut request).is_pending());
        drop(request);
        held.release().await.unwrap();
        eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
        assert_eq!(handler.started.get(), 0);
    }
}

#[test]
fn a_request_that_is_dropped_outside_of_its_runtime_goes_on_in_it() {
    let runtime = on_one_thread();
    let nodes = nodes();
    for (app, handler) in apps(&manager(&nodes)) {
        let mut request = Box::pin(call(app));
        runtime.block_on(handler.starts(&mut request));
        drop(request);
        assert_eq!(handler.ended.get(), 0);
        handler.go_on.notify_one();
        runtime.block_on(handler.ended.reaches(1));
        assert!(handler.seen().is_some());
        runtime.block_on(eventually_async("the lock is free", async || is_free(&nodes, "r").await));
    }
}

// promise: no-leaks
#[test]
fn a_handler_whose_runtime_ends_is_dropped_and_its_lock_released() {
    let nodes = nodes();
    for in_a_task in [true, false] {
        for (app, handler) in apps(&manager(&nodes)) {
            let runtime = on_one_thread();
            if in_a_task {
                runtime.spawn(call(app));
                runtime.block_on(handler.started.reaches(1));
                drop(runtime);
            } else {
                let mut request = Box::pin(call(app));
                runtime.block_on(handler.starts(&mut request));
                drop(runtime);
                drop(request);
            }
            assert_eq!((handler.ended.get(), handler.seen()), (1, None));
            on_one_thread().block_on(eventually_async("the lock is free", async || is_free(&nodes, "r").await));
        }
    }
}

/// A handler with a lock of its own, under a layer with another.
fn nested(layer: LockLayer, locks: &LockManager) -> (Router, Handler) {
    let handler = Handler::default();
    let route = on_post(by_attribute).route_layer(layer);
    (Router::new().route("/", route).layer(Extension(locks.clone())).with_state(handler.clone()), handler)
}

#[tokio::test]
async fn the_outermost_of_nested_locks_decides_what_a_hang_up_does() {
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Cancel] {
        let nodes = nodes();
        let locks = manager(&nodes);
        let (app, handler) = nested(LockLayer::new(locks.clone(), "outer").on_disconnect(on_disconnect), &locks);
        handler.starts(call(app)).await;
        if on_disconnect == OnDisconnect::Finish {
            assert!(!is_free(&nodes, "outer").await && !is_free(&nodes, "r").await, "the handler has not ended");
            handler.go_on.notify_one();
            handler.ended.reaches(1).await;
            assert!(handler.seen().is_some());
        } else {
            assert_eq!((handler.ended.get(), handler.seen()), (1, None));
        }
        for resource in ["outer", "r"] {
            eventually_async("the lock is free", async || is_free(&nodes, resource).await).await;
        }
    }
}

/// Middleware that answers as soon as the handler runs.
async fn give_up(State(handler): State<Handler>, request: Request, next: Next) -> Response {
    let started = async {
        while handler.started.get() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        response = next.run(request) => response,
        () = started => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

#[tokio::test]
async fn a_handler_that_is_dropped_between_two_locks_ends_before_the_outer_one_is_released() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let handler = Handler::default();
    let gives_up = from_fn_with_state(handler.clone(), give_up);
    let route = on_post(by_attribute).route_layer(gives_up).route_layer(LockLayer::new(locks.clone(), "outer"));
    let app = Router::new().route("/", route).layer(Extension(locks)).with_state(handler.clone());
    assert_eq!(call(app).await, StatusCode::REQUEST_TIMEOUT);
    assert_eq!((handler.ended.get(), handler.seen()), (1, None), "it would run on without the outer lock");
    for resource in ["outer", "r"] {
        eventually_async("the lock is free", async || is_free(&nodes, resource).await).await;
    }
}

#[tokio::test]
async fn a_handler_under_two_locks_ends_when_the_outer_one_is_lost() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let (app, handler) = nested(LockLayer::new(locks.clone(), "outer").max_hold(Duration::from_millis(200)), &locks);
    assert_eq!(call(app).await, 500);
    assert_eq!((handler.ended.get(), handler.seen()), (1, None));
    eventually_async("the inner lock is free", async || is_free(&nodes, "r").await).await;
}
