//! Locks that handlers read and write, over real connections.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::{Kind, Lease, Leases, LockError, LockLayer, LockManager, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{Counter, Response, is_free, manager, nodes, post, serve};
use tokio::sync::Notify;

/// What a test sees of a handler, and steers in it.
#[derive(Clone, Default)]
struct Probe {
    runs: Counter,
    go_on: Arc<Notify>,
}

#[distributed_lock(resource = "catalog:{name}", mode = "read", wait = "0s")]
async fn read(Path(name): Path<String>, State(probe): State<Probe>, lease: Lease) -> String {
    probe.runs.add();
    probe.go_on.notified().await;
    format!("{name}: {}", lease.kind())
}

#[distributed_lock(resource = "catalog:{name}", mode = "write", wait = "0s")]
async fn write(Path(name): Path<String>, lease: Lease) -> String {
    format!("{name}: {}", lease.kind())
}

#[distributed_lock(resource = ["catalog:{name}", "prices"], mode = "read", wait = "0s")]
async fn read_all(Path(name): Path<String>, leases: Leases) -> String {
    assert!(leases.iter().all(|lease| lease.kind() == Kind::Read));
    format!("{name}: {}", leases.len())
}

/// Reads, and then locks the same to write, which would wait for itself.
#[distributed_lock(resource = "catalog:{name}", mode = "read", wait = "0s")]
async fn upgrade(Path(name): Path<String>, Extension(locks): Extension<LockManager>, lease: Lease) -> String {
    let error = locks.lock(format!("catalog:{name}")).wait(Duration::from_secs(60)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Upgrade { .. }), "{error}");
    lease.kind().to_string()
}

async fn layered(State(probe): State<Probe>, lease: Lease) -> String {
    probe.runs.add();
    probe.go_on.notified().await;
    lease.kind().to_string()
}

fn app(locks: &LockManager, probe: &Probe) -> Router {
    let by_layer = LockLayer::new(locks.clone(), "catalog:{name}").wait(Duration::ZERO).read();
    let all = LockLayer::new_all(locks.clone(), ["catalog:{name}", "prices"]).wait(Duration::ZERO).read();
    Router::new()
        .route("/read/{name}", on_post(read))
        .route("/write/{name}", on_post(write))
        .route("/read-all/{name}", on_post(read_all))
        .route("/upgrade/{name}", on_post(upgrade))
        .route("/layer/{name}", on_post(layered).route_layer(by_layer))
        .route("/layer-all/{name}", on_post(async |leases: Leases| leases[1].kind().to_string()).route_layer(all))
        .with_state(probe.clone())
}

fn answer(response: &Response) -> (StatusCode, &str) {
    (response.status, response.text())
}

// promise: readers
#[tokio::test]
async fn handlers_that_read_run_beside_each_other_and_one_that_writes_alone() {
    let (nodes, probe) = (nodes(), Probe::default());
    let (locks, other) = (manager(&nodes), manager(&nodes));
    let address = serve(app(&locks, &probe), &locks).await;
    let elsewhere = serve(app(&other, &probe), &other).await;
    let reading = ["/read/a", "/layer/a"].map(|path| [address, elsewhere].map(|at| tokio::spawn(post(at, path))));
    probe.runs.reaches(4).await;

    assert_eq!(post(address, "/write/a").await.kind(), "lock-busy");
    assert_eq!(answer(&post(address, "/write/b").await), (StatusCode::OK, "b: write"));
    assert_eq!(answer(&post(elsewhere, "/read-all/a").await), (StatusCode::OK, "a: 2"));
    assert_eq!(answer(&post(elsewhere, "/layer-all/a").await), (StatusCode::OK, "read"));
    assert_eq!(answer(&post(elsewhere, "/upgrade/a").await), (StatusCode::OK, "read"));

    let writer = locks.lock("prices").acquire().await.unwrap();
    assert_eq!(post(elsewhere, "/read-all/a").await.kind(), "lock-busy");
    drop(writer);

    probe.go_on.notify_waiters();
    for request in reading.into_iter().flatten() {
        let response = request.await.unwrap();
        assert!(["a: read", "read"].contains(&response.text()), "{}", response.text());
    }
    eventually_async("the last reader has released it", async || is_free(&nodes, "catalog:a").await).await;
    assert_eq!(answer(&post(elsewhere, "/write/a").await), (StatusCode::OK, "a: write"));
}

// promise: readers
#[tokio::test]
async fn a_delegation_to_read_is_no_permission_to_write() {
    let nodes = nodes();
    let (locks, holder) = (manager(&nodes), manager(&nodes));
    let layer = || LockLayer::new(locks.clone(), "catalog").adopt_delegations();
    let app = Router::new()
        .route("/write", on_post(async || "written").route_layer(layer()))
        .route("/read", on_post(async |lease: Lease| lease.kind().to_string()).route_layer(layer().read()));
    let address = serve(app, &locks).await;
    let reader = holder.read("catalog").ttl(Duration::from_millis(600)).acquire().await.unwrap();
    let delegation = reader.delegate().create().unwrap();
    let call = async |path| {
        let request = lock_support::http::request(path).header(delegation.name(), delegation.value());
        lock_support::http::send(address, request.body(axum::body::Body::empty()).unwrap()).await.unwrap()
    };
    let refused = call("/write").await;
    assert_eq!((refused.status, refused.kind().as_str()), (StatusCode::FORBIDDEN, "lock-delegation-refused"));
    assert_eq!(answer(&call("/read").await), (StatusCode::OK, "read"));
    drop(reader);

    let writer = holder.lock("catalog").wait(Duration::from_secs(30)).acquire().await.unwrap();
    let delegation = writer.delegate().create().unwrap();
    let request = lock_support::http::request("/read").header(delegation.name(), delegation.value());
    let answered = lock_support::http::send(address, request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer(&answered), (StatusCode::OK, "write"), "who may write may read");
}

#[tokio::test]
async fn a_function_reads_beside_others() {
    #[distributed_lock(resource = "catalog", mode = "read", manager = locks, wait = "0s")]
    async fn count(locks: &LockManager) -> Result<Option<Kind>, LockError> {
        Ok(Lease::current().map(|lease| lease.kind()))
    }
    let nodes = nodes();
    let (locks, other) = (manager(&nodes), manager(&nodes));
    let beside = other.read("catalog").acquire().await.unwrap();
    assert_eq!(count(&locks).await.unwrap(), Some(Kind::Read));
    beside.release().await.unwrap();
}
