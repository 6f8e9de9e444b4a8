//! Requests that carry a delegation, over real connections: with the extractor, the attribute and the layer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::stream;
use lock_axum::delegation::{Delegated, Delegation};
use lock_axum::{FencingToken, Lease, LockGuard, LockLayer, LockManager, LockRejection, distributed_lock};
use lock_core::MemoryNode;
use lock_support::eventually_async;
use lock_support::http::{Counter, Response, is_free, manager, nodes, request, send, serve};
use tokio::sync::Notify;

const TTL: Duration = Duration::from_millis(600);

/// What a test sees of a handler, and steers in it.
#[derive(Clone, Default)]
struct Probe {
    runs: Counter,
    ended: Counter,
    go_on: Arc<Notify>,
}

/// The token of the lock under which the task runs.
fn token_in_scope(lease: &Lease) -> String {
    assert_eq!(Lease::current().map(|current| current.token()), Some(lease.token()));
    lease.token().to_string()
}

#[distributed_lock(resource = "stock:{sku}", wait = "0s", adopt = true)]
async fn by_attribute(Path(sku): Path<String>, State(probe): State<Probe>, lease: Lease) -> String {
    probe.runs.add();
    assert_eq!((lease.resource(), lease.template()), (&*format!("stock:{sku}"), "stock:{sku}"));
    token_in_scope(&lease)
}

async fn by_layer(State(probe): State<Probe>, lease: Lease, token: FencingToken) -> String {
    probe.runs.add();
    assert_eq!((lease.token(), lease.template()), (token, "stock:{sku}"));
    token_in_scope(&lease)
}

async fn by_extractor(State(probe): State<Probe>, Delegated(lease): Delegated) -> Result<String, LockRejection> {
    probe.runs.add();
    lease.check()?;
    Ok(lease.token().to_string())
}

fn layer(locks: &LockManager) -> LockLayer {
    LockLayer::new(locks.clone(), "stock:{sku}").wait(Duration::ZERO).adopt_delegations()
}

struct World {
    nodes: Vec<MemoryNode>,
    /// Of the service that holds the lock.
    holder: LockManager,
    address: SocketAddr,
    probe: Probe,
}

const ADOPTING: [&str; 2] = ["/attribute/42", "/layer/42"];
const ALL: [&str; 3] = ["/attribute/42", "/layer/42", "/extractor"];

impl World {
    async fn start() -> Self {
        let (nodes, probe) = (nodes(), Probe::default());
        let service = LockManager::builder().nodes(nodes.clone()).audience("billing").connect_lazy().unwrap();
        let app = Router::new()
            .route("/attribute/{sku}", post(by_attribute))
            .route("/layer/{sku}", post(by_layer).route_layer(layer(&service)))
            .route("/extractor", post(by_extractor));
        let address = serve(app.with_state(probe.clone()), &service).await;
        Self { holder: manager(&nodes), nodes, address, probe }
    }

    async fn lock(&self) -> LockGuard {
        self.holder.lock("stock:42").ttl(TTL).acquire().await.unwrap()
    }
}

async fn call(address: SocketAddr, path: &str, delegations: &[&str]) -> Response {
    let with = |request: axum::http::request::Builder, text: &&str| request.header(Delegation::HEADER, *text);
    let request = delegations.iter().fold(request(path), with);
    send(address, request.body(Body::empty()).unwrap()).await.unwrap()
}

/// Refused with 403 before the handler runs, and without a word of what only the holder knows.
fn assert_refused(response: &Response, delegations: &[&str], what: &str) {
    assert_eq!(response.status, StatusCode::FORBIDDEN, "{what}: {}", response.text());
    assert_eq!(response.kind(), "lock-delegation-refused", "{what}");
    let said = response.text();
    let repeats = |text: &&str| !text.is_empty() && said.contains(*text);
    assert!(!said.contains("stock") && !delegations.iter().any(repeats), "{said}");
}

// promise: delegation
#[tokio::test]
async fn a_request_with_a_delegation_runs_under_the_lock_of_its_sender() {
    let world = World::start().await;
    for path in ALL {
        let guard = world.lock().await;
        let delegation = guard.delegate().audience("billing").create().unwrap();
        let text = delegation.as_str().to_owned();
        let answer =
            delegation.around(async { Ok::<_, Infallible>(call(world.address, path, &[&text]).await) }).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*guard.token().to_string()), "{path}");
        assert!(guard.release().await.unwrap(), "{path}: it was the sender's to release");
        assert!(is_free(&world.nodes, "stock:42").await, "{path}");
    }
}

#[tokio::test]
async fn a_request_without_a_delegation_acquires_the_lock() {
    let world = World::start().await;
    for path in ADOPTING {
        assert_eq!(call(world.address, path, &[]).await.status, StatusCode::OK);
        eventually_async("it is released", async || is_free(&world.nodes, "stock:42").await).await;
    }
    let _held = world.lock().await;
    for path in ADOPTING {
        assert_eq!(call(world.address, path, &[]).await.kind(), "lock-busy");
    }
    let refused = call(world.address, "/extractor", &[]).await;
    assert_refused(&refused, &[], "nothing to adopt");
    assert!(refused.problem()["detail"].as_str().unwrap().contains("`lock-delegation` is missing"));
}

// promise: delegation
#[tokio::test]
async fn a_delegation_that_is_not_valid_is_refused_and_nothing_is_acquired_in_its_place() {
    let world = World::start().await;
    let guard = world.lock().await;
    let text = |delegation: Delegation| delegation.as_str().to_owned();
    let valid = text(guard.delegate().create().unwrap());
    let forged = format!("{}{}", &valid[..valid.len() - 8], "AAAAAAAA");
    let other_audience = text(guard.delegate().audience("shipping").create().unwrap());
    let expired = text(guard.delegate().expires_in(Duration::from_millis(10)).create().unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let elsewhere = manager(&nodes());
    let of_another_set = text(elsewhere.lock("stock:42").acquire().await.unwrap().delegate().create().unwrap());
    let cases: [(&str, &[&str]); 7] = [
        ("malformed", &["not one"]),
        ("empty", &[""]),
        ("forged", &[&forged]),
        ("for another audience", &[&other_audience]),
        ("expired", &[&expired]),
        ("of another set", &[&of_another_set]),
        ("two of them", &[&valid, &valid]),
    ];
    for path in ALL {
        for (what, delegations) in cases {
            let refused = call(world.address, path, delegations).await;
            assert_refused(&refused, delegations, what);
        }
    }
    // Free, and granted again to somebody else: no reason to acquire it, or to join its next holder.
    drop(guard);
    eventually_async("the key expires", async || is_free(&world.nodes, "stock:42").await).await;
    for path in ALL {
        assert_refused(&call(world.address, path, &[&valid]).await, &[&valid], "replayed while nobody holds it");
    }
    let _next = world.lock().await;
    for path in ALL {
        assert_refused(&call(world.address, path, &[&valid]).await, &[&valid], "replayed after a re-grant");
    }
    assert_eq!(world.probe.runs.get(), 0);
}

// promise: delegation
#[tokio::test]
async fn a_delegation_for_another_resource_than_that_of_the_request_is_refused() {
    let world = World::start().await;
    let guard = world.lock().await;
    let delegation = guard.delegate().create().unwrap();
    for path in ["/attribute/43", "/layer/43"] {
        assert_refused(&call(world.address, path, &[delegation.as_str()]).await, &[delegation.as_str()], path);
    }
    assert_eq!(world.probe.runs.get(), 0);
    assert!(is_free(&world.nodes, "stock:43").await);
}

// promise: delegation
#[tokio::test]
async fn without_a_majority_that_proves_a_delegation_the_client_may_try_again() {
    let world = World::start().await;
    let guard = world.lock().await;
    let delegation = guard.delegate().create().unwrap();
    world.nodes[..3].iter().for_each(|node| node.set_down(true));
    for path in ALL {
        let answer = call(world.address, path, &[delegation.as_str()]).await;
        assert_eq!((answer.status, &*answer.kind()), (StatusCode::SERVICE_UNAVAILABLE, "lock-unavailable"));
        assert_eq!(answer.retry_after(), Some(1));
    }
    assert_eq!(world.probe.runs.get(), 0);
}

#[distributed_lock(resource = "stock:42", adopt = true)]
async fn until_told(State(probe): State<Probe>) {
    let _ended = probe.ended.on_drop();
    probe.runs.add();
    probe.go_on.notified().await;
}

// promise: delegation
#[tokio::test]
async fn a_lock_that_its_holder_loses_cancels_the_handler_that_adopted_it() {
    let (nodes, probe) = (nodes(), Probe::default());
    let service = manager(&nodes);
    let layered = post(async |State(probe): State<Probe>| {
        let _ended = probe.ended.on_drop();
        probe.runs.add();
        probe.go_on.notified().await;
    });
    let app = Router::new()
        .route("/attribute", post(until_told))
        .route("/layer", layered.route_layer(LockLayer::new(service.clone(), "stock:42").adopt_delegations()));
    let address = serve(app.with_state(probe.clone()), &service).await;
    let holder = manager(&nodes);
    for (calls, path) in ["/attribute", "/layer"].into_iter().enumerate() {
        let guard = holder.lock("stock:42").ttl(TTL).acquire().await.unwrap();
        let delegation = guard.delegate().expires_in(TTL * 100).create().unwrap();
        let text = delegation.as_str().to_owned();
        let answer = tokio::spawn(async move { call(address, path, &[&text]).await });
        probe.runs.reaches(calls + 1).await;
        holder.force_release("stock:42").await.unwrap();
        let answer = answer.await.unwrap();
        assert_eq!((answer.status, &*answer.kind()), (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost"), "{path}");
        assert_eq!(probe.ended.get(), calls + 1);
        drop(guard);
    }
}

#[distributed_lock(resource = "stock:42", hold = "body", adopt = true)]
async fn in_two_parts(State(probe): State<Probe>) -> Body {
    Body::from_stream(stream::unfold((probe, 0), async |(probe, part)| {
        if part == 1 {
            probe.go_on.notified().await;
        }
        (part < 2).then(|| (Ok::<_, Infallible>("part;"), (probe, part + 1)))
    }))
}

// promise: delegation
#[tokio::test]
async fn an_adopted_lease_lives_until_the_body_ends() {
    use axum::Extension;
    use futures_util::StreamExt as _;
    use tower::ServiceExt as _;

    let (nodes, probe) = (nodes(), Probe::default());
    let (holder, service) = (manager(&nodes), manager(&nodes));
    let app = Router::new().route("/", post(in_two_parts)).layer(Extension(service.clone())).with_state(probe.clone());
    for is_lost in [false, true] {
        let guard = holder.lock("stock:42").ttl(TTL).acquire().await.unwrap();
        let delegation = guard.delegate().create().unwrap();
        let request = request("/").header(delegation.name(), delegation.value()).body(Body::empty()).unwrap();
        let mut body = app.clone().oneshot(request).await.unwrap().into_body().into_data_stream();
        body.next().await.unwrap().unwrap();
        assert_eq!(service.held().len(), 1);
        if is_lost {
            holder.force_release("stock:42").await.unwrap();
            assert!(body.next().await.unwrap().is_err());
        } else {
            probe.go_on.notify_one();
            assert!(body.next().await.unwrap().is_ok() && body.next().await.is_none());
        }
        assert!(service.held().is_empty());
    }
}

#[tokio::test]
async fn a_handler_that_adopts_takes_its_lock_into_no_session() {
    let locks = manager(&nodes());
    let hour = Duration::from_secs(3600);
    let build: [fn(LockLayer, Duration) -> LockLayer; 2] = [
        |layer, hour| layer.adopt_delegations().hold_until_session_end(hour),
        |layer, hour| layer.hold_until_session_end(hour).adopt_delegations(),
    ];
    for build in build {
        let layer = LockLayer::new(locks.clone(), "r");
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| build(layer, hour)));
        assert!(refused.is_err());
    }
}
