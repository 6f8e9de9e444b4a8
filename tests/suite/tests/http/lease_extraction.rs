//! What extractors, and requests that are passed on, get to see of the lease of a guarded handler.

use std::io::{Read as _, Seek as _};
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request as Rq};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::{FencingToken, Lease, Leases, LockLayer, LockManager, MissingLease, distributed_lock};
use lock_support::Events;
use lock_support::http::{manager, nodes, post, request, serve};
use tower::ServiceExt as _;

/// An extractor that takes token and lease itself, as those of applications do.
struct Fenced(FencingToken, Lease);

impl<S: Sync> FromRequestParts<S> for Fenced {
    type Rejection = MissingLease;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, MissingLease> {
        let token = FencingToken::from_request_parts(parts, state).await?;
        Ok(Self(token, Lease::from_request_parts(parts, state).await?))
    }
}

/// An extractor that can do without a lease.
struct PerhapsFenced(Option<Lease>);

impl<S: Send + Sync> FromRequestParts<S> for PerhapsFenced {
    type Rejection = MissingLease;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, MissingLease> {
        Option::<Lease>::from_request_parts(parts, state).await.map(Self)
    }
}

/// An extractor that hands its rejection to the handler.
struct Attempt(Result<Fenced, MissingLease>);

impl<S: Sync> FromRequestParts<S> for Attempt {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(Fenced::from_request_parts(parts, state).await))
    }
}

#[distributed_lock(resource = "macro")]
async fn fenced(Fenced(token, outer): Fenced, lease: Lease) -> String {
    assert_eq!(token, outer.token());
    format!("{} {}", outer.resource(), lease.resource())
}

#[distributed_lock(resource = "macro")]
async fn perhaps_fenced(PerhapsFenced(outer): PerhapsFenced, lease: Lease) -> String {
    format!("{} {}", outer.unwrap().resource(), lease.resource())
}

#[distributed_lock(resource = "macro")]
async fn attempt(Attempt(outer): Attempt) -> String {
    outer.map_or_else(|missing| missing.to_string(), |Fenced(_, lease)| lease.resource().to_owned())
}

fn extractors() -> Router {
    Router::new()
        .route("/fenced", on_post(fenced))
        .route("/perhaps", on_post(perhaps_fenced))
        .route("/attempt", on_post(attempt))
}

// promise: fail-closed
#[tokio::test]
async fn an_extractor_before_the_lock_has_no_lease_and_is_refused() {
    let address = serve(extractors(), &manager(&nodes())).await;
    for path in ["/fenced", "/perhaps"] {
        let response = post(address, path).await;
        assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", response.text());
        assert_eq!(response.problem()["type"], "about:blank");
    }
    let rejection = post(address, "/attempt").await;
    assert!(rejection.text().contains("before its lock is acquired"), "{}", rejection.text());
}

/// An extractor of several, whose derive makes `None` of every rejection of its optional field.
#[derive(FromRequestParts)]
struct Derived {
    lease: Option<Lease>,
}

#[tokio::test]
async fn a_lease_that_is_asked_for_before_the_lock_is_logged_once_whatever_becomes_of_the_rejection() {
    #[distributed_lock(resource = "macro")]
    async fn derived(Derived { lease }: Derived) -> String {
        lease.is_none().to_string()
    }
    let events = Events::record();
    let routes = extractors().route("/derived", on_post(derived));
    let address = serve(routes, &manager(&nodes())).await;
    assert_eq!(post(address, "/derived").await.text(), "true");
    for (requests, path) in ["/derived", "/fenced", "/perhaps", "/attempt"].into_iter().enumerate() {
        post(address, path).await;
        assert_eq!(events.named("lock.not_guarded").len(), requests + 2, "{path}");
    }
}

#[tokio::test]
async fn an_extractor_under_a_layer_and_the_attribute_sees_the_lease_of_the_layer() {
    let locks = manager(&nodes());
    let address = serve(extractors().route_layer(LockLayer::new(locks.clone(), "layer")), &locks).await;
    assert_eq!(post(address, "/fenced").await.text(), "layer macro");
    assert_eq!(post(address, "/perhaps").await.text(), "layer macro");
    assert_eq!(post(address, "/attempt").await.text(), "layer");
}

#[distributed_lock(resource = "outer")]
async fn forwards(Extension(inner): Extension<Router>, request: Rq, lease: Lease) -> Response {
    assert_eq!(lease.resource(), "outer");
    inner.oneshot(request).await.unwrap()
}

// promise: fail-closed
#[tokio::test]
async fn a_request_that_is_passed_on_carries_the_lease_whatever_its_type_is_called() {
    type Head = Parts;

    #[distributed_lock(resource = "head")]
    async fn head(head: Head, lease: Lease) -> String {
        assert_eq!(head.extensions.get::<Lease>().unwrap().resource(), "head");
        (*head.extensions.get::<FencingToken>().unwrap() == lease.token()).to_string()
    }
    async fn resource(lease: Lease, perhaps: Option<FencingToken>, Fenced(token, _): Fenced) -> String {
        assert_eq!((lease.token(), lease.token()), (perhaps.unwrap(), token));
        lease.resource().to_owned()
    }
    // Nothing is pending for those behind the lock.
    #[distributed_lock(resource = ["a", "b"])]
    async fn forwards_set(Extension(inner): Extension<Router>, request: Rq) -> Response {
        inner.oneshot(request).await.unwrap()
    }
    let both = async |leases: Option<Leases>| (leases.unwrap().len() == 2).to_string();
    let inner: Router = Router::new().route("/", on_post(resource)).route("/set", on_post(both));
    let app = Router::new()
        .route("/", on_post(forwards))
        .route("/set", on_post(forwards_set))
        .layer(Extension(inner))
        .route("/head", on_post(head));
    let address = serve(app, &manager(&nodes())).await;
    assert_eq!(post(address, "/").await.text(), "outer");
    assert_eq!(post(address, "/set").await.text(), "true");
    assert_eq!(post(address, "/head").await.text(), "true");
}

/// What is logged while a request is refused.
async fn log_of_refusal(app: Router) -> String {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::clone(&file)).finish();
    let response = {
        let _guard = tracing::subscriber::set_default(log);
        app.oneshot(request("/").body(Body::empty()).unwrap()).await.unwrap()
    };
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let mut text = String::new();
    (&*file).rewind().unwrap();
    (&*file).read_to_string(&mut text).unwrap();
    text
}

// promise: fail-closed
#[tokio::test]
async fn the_log_advises_what_is_missing_and_not_what_is_there() {
    async fn unguarded(_: Lease) {}

    static LOCKS: LazyLock<LockManager> = LazyLock::new(LockManager::in_memory);
    #[distributed_lock(resource = "r", manager = LOCKS)]
    async fn function(_lease: Lease) -> Result<(), lock_axum::LockRejection> {
        Ok(())
    }
    for app in [on_post(unguarded), on_post(function)].map(|route| Router::new().route("/", route)) {
        let log = log_of_refusal(app).await;
        assert!(log.contains("LockLayer::new"), "{log}");
        assert!(log.contains("#[distributed_lock] without `manager`"), "{log}");
        assert!(log.contains("Lease::current()"), "{log}");
    }

    let guarded = Router::new().route("/", on_post(fenced)).layer(Extension(LockManager::in_memory()));
    let log = log_of_refusal(guarded).await;
    assert!(log.contains("FencingToken"), "{log}");
    assert!(log.contains("a parameter of the handler itself"), "{log}");
    assert!(log.contains("LockLayer"), "{log}");
    assert!(!log.contains("#[distributed_lock] without"), "{log}");
}

// promise: fail-closed
#[tokio::test]
async fn a_lease_that_the_locks_of_a_route_do_not_have_is_refused_and_the_log_names_the_one_they_have() {
    let locks = LockManager::in_memory();
    let one = || LockLayer::new(locks.clone(), "one");
    let several = || LockLayer::new_all(locks.clone(), ["one", "other"]);
    for (route, advice) in [
        (on_post(async |_: Lease| ()).route_layer(several()), "take `Leases`"),
        (on_post(async |_: FencingToken| ()).route_layer(several()), "take `Leases`"),
        // Without a token, it would go on as if nothing guarded the route, and claim nothing.
        (on_post(async |_: Option<FencingToken>| ()).route_layer(several()), "take `Leases`"),
        (on_post(async |_: Option<Lease>| ()).route_layer(several()), "take `Leases`"),
        (on_post(async |_: Leases| ()).route_layer(one()), "take `Lease`"),
        (on_post(async |_: Option<Leases>| ()).route_layer(one()), "take `Lease`"),
    ] {
        let log = log_of_refusal(Router::new().route("/", route)).await;
        assert!(log.contains("lock.not_guarded") && log.contains(advice) && !log.contains("LockLayer::new"), "{log}");
    }
}
