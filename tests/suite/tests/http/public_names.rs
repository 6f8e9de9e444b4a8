//! Programs as users write them, with names of `lock_axum` alone: each compiles, and does what the names say.

use std::error::Error;
use std::hash::Hash;
use std::time::Duration;

use axum::extract::{Extension, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post as on_post;
use axum::{Json, Router};
use lock_axum::inspection::{ForcedRelease, HolderTag, LockOnNode, LockReport, LockVerdict};
use lock_axum::{
    ConfigError, ConnectError, FencingToken, Health, Hold, KeyError, Lease, LockError, LockGuard, LockLayer,
    LockManager, LockManagerBuilder, LockNode, LockRejection, LockRequest, MemoryNode, MissingHold, NodeHealth,
    OnDisconnect, OnLost, RedisNode, ShutdownReport, distributed_lock,
};
use lock_support::http::{post, request, send, serve};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_manager_is_configured_without_a_runtime() {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    let builder: LockManagerBuilder = LockManager::builder()
        .nodes(nodes)
        .prefix("shop:")
        .set_name("shop")
        .ttl(SECOND * 10)
        .wait(SECOND * 2)
        .max_hold(SECOND * 60)
        .min_validity(SECOND)
        .renew(true)
        .max_ttl(SECOND * 60)
        .max_waiters(1024)
        .node_timeout(Duration::from_millis(50));
    let locks: LockManager = builder.connect_lazy().unwrap();
    assert!(locks.held().is_empty());
    drop(LockManager::in_memory());

    let urls = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"];
    let of_urls: Result<LockManager, ConfigError> = LockManager::builder().redis(urls).connect_lazy();
    drop(of_urls.unwrap());
    let of_nodes = urls.map(|url| RedisNode::from_url(url).unwrap());
    drop(LockManager::builder().nodes(of_nodes).connect_lazy().unwrap());
    let by_factory = LockManager::builder().redis_factory("custom", |config| async move {
        let client = redis::Client::open("redis://10.0.0.1?protocol=resp3")?;
        client.get_multiplexed_async_connection_with_config(&config).await
    });
    drop(by_factory.connect_lazy().unwrap());
    assert!(matches!(LockManager::builder().connect_lazy(), Err(ConfigError::NoNodes)));
}

#[tokio::test]
async fn a_lock_is_inspected_and_taken_from_its_holder() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    let guard = locks.lock("stock:42").acquire().await?;
    let report: LockReport = locks.inspect("stock:42").await?;
    let (verdict, nodes): (LockVerdict, &[LockOnNode]) = (report.verdict(), &report.nodes);
    assert!(verdict == LockVerdict::Held && nodes.iter().all(|node| node.votes && node.waiters == 0));
    let forced: ForcedRelease = locks.force_release("stock:42").await?;
    let (token, evicted): (FencingToken, &[HolderTag]) = (forced.token, &forced.evicted);
    assert!(token > guard.token() && Some(evicted[0]) == report.holder && forced.freed_on.len() == 5);
    Ok(())
}

#[tokio::test]
async fn locks_are_taken_by_hand() -> Result<(), Box<dyn Error + Send + Sync>> {
    let nodes = [(); 5].map(|()| MemoryNode::new());
    let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
    let request: LockRequest = locks.lock("stock:42").ttl(SECOND * 10).wait(SECOND).max_hold(SECOND * 60).renew(false);
    let guard: LockGuard = request.acquire().await?;
    let token: FencingToken = guard.token();
    let (remaining, lease): (Duration, Lease) = (guard.remaining(), guard.lease());
    assert!(guard.is_valid() && remaining <= SECOND * 10 && lease.resource() == guard.resource());
    lease.check()?;
    assert_eq!(locks.held().iter().map(Lease::token).collect::<Vec<_>>(), [token]);

    let error: LockError = locks.lock("stock:42").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }));
    let (_, waited, retry_after): (&str, Duration, Option<Duration>) =
        (error.resource(), error.waited(), error.retry_after());
    assert!(waited < SECOND && retry_after.is_some() && !error.votes().is_empty());
    assert!(guard.release().await?, "it was still ours");
    lease.lost().await;

    let receipt = locks
        .lock("stock:42")
        .run(async |lease| {
            assert_eq!(Lease::current().map(|lease| lease.token()), Some(lease.token()));
            lease.token()
        })
        .await?;
    assert!(token < receipt);
    assert_eq!(token.as_i64().to_string(), token.get().to_string());

    let health: Health = locks.health().await;
    let nodes_that_answer: Vec<&NodeHealth> =
        health.nodes.iter().filter(|node| node.reachable && node.admitted).collect();
    assert!(health.quorum && nodes_that_answer.len() == 5);

    let closed = tokio::spawn(locks.close_on(std::future::ready("any output")));
    closed.await?;
    let ShutdownReport { released, revoked, .. } = locks.shutdown(SECOND).await;
    assert_eq!((released, revoked), (0, 0));
    locks.close();
    assert!(matches!(locks.lock("r").acquire().await, Err(LockError::ShuttingDown { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_memory_node_has_switches_for_faults() {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    nodes[0].set_down(true);
    nodes[1].set_down(true);
    let connected: Result<LockManager, ConnectError> = LockManager::builder().nodes(nodes.clone()).connect().await;
    assert!(connected.is_err());
    for node in &nodes {
        node.set_down(false);
        node.set_delay(Duration::from_millis(1));
        node.drop_replies(false);
        node.advance_clock(SECOND);
        node.forget();
    }
    fn is_a_node<N: LockNode + Clone>(_: &N) {}
    is_a_node(&nodes[0]);
    let locks = LockManager::builder().nodes(nodes).connect().await.unwrap();
    drop(locks.lock("r").acquire().await.unwrap());
}

#[distributed_lock(
    resource = "stock:{sku}",
    ttl = "10s",
    wait = "2s",
    max_hold = "1m",
    renew = true,
    hold = "body",
    on_lost = "cancel",
    on_disconnect = "finish",
    busy_status = 409,
    retry_after = "1s",
    on_error = answer
)]
async fn by_macro(Path(sku): Path<String>, lease: Lease, Json(quantity): Json<u32>) -> String {
    format!("{sku} {quantity} {}", lease.resource())
}

fn answer(error: LockError) -> LockRejection {
    error.into()
}

async fn by_layer(lease: Lease, token: FencingToken, Extension(same): Extension<FencingToken>) -> String {
    assert!(token == same && token == lease.token());
    lease.resource().to_owned()
}

#[tokio::test]
async fn handlers_are_guarded_by_macro_and_layer() {
    let locks = LockManager::in_memory();
    let by_key = LockLayer::with_key(locks.clone(), |parts: &Parts| -> Result<String, KeyError> {
        let tenant = parts.headers.get("x-tenant").ok_or_else(|| KeyError::new("x-tenant header is missing"))?;
        Ok(format!("tenant:{}", tenant.to_str().map_err(|_| KeyError::new("x-tenant header is not ASCII"))?))
    });
    let every_setting = LockLayer::new(locks.clone(), "stock:{sku}")
        .ttl(SECOND * 10)
        .wait(SECOND)
        .max_hold(SECOND * 60)
        .renew(true)
        .on_lost(OnLost::Continue)
        .on_disconnect(OnDisconnect::Cancel)
        .busy_status(StatusCode::LOCKED)
        .retry_after(SECOND)
        .on_error(|error: LockError| LockRejection::from(error))
        .body_limit(1024)
        .hold_until_body_end();
    let app = Router::new()
        .route("/macro/{sku}", on_post(by_macro))
        .route("/layer/{sku}", on_post(by_layer).route_layer(every_setting))
        .route(
            "/key",
            on_post(by_layer).route_layer(by_key.on_lost(OnLost::Cancel).on_disconnect(OnDisconnect::Finish)),
        )
        .route("/header", on_post(by_layer).route_layer(LockLayer::new(locks.clone(), "export:{header.x-tenant}")))
        .route(
            "/query",
            on_post(by_layer).route_layer(LockLayer::new(locks.clone(), "search:{query.q}").stream_request_body()),
        );
    let address = serve(app, &locks).await;
    let tenant = |path: &str| request(path).header("x-tenant", "a").body(axum::body::Body::empty()).unwrap();
    let order = request("/macro/42").header("content-type", "application/json").body("3".into()).unwrap();
    assert_eq!(send(address, order).await.unwrap().text(), "42 3 stock:42");
    assert_eq!(post(address, "/layer/42").await.text(), "stock:42");
    assert_eq!(send(address, tenant("/key")).await.unwrap().text(), "tenant:a");
    assert_eq!(send(address, tenant("/header")).await.unwrap().text(), "export:a");
    assert_eq!(post(address, "/query?q=a").await.text(), "search:a");
    assert_eq!(post(address, "/key").await.kind(), "lock-key-invalid");
}

struct Shop {
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(resource = "stock:{sku}", manager = self.locks, on_lost = "continue")]
    async fn deduct(&self, sku: &str) -> Result<FencingToken, LockError> {
        Ok(Lease::current().unwrap().token())
    }
}

#[tokio::test]
async fn methods_are_guarded_with_a_manager_expression() {
    let shop = Shop { locks: LockManager::in_memory() };
    let first = shop.deduct("42").await.unwrap();
    assert!(first < shop.deduct("42").await.unwrap());
}

#[test]
fn public_types_have_the_traits_that_users_need() {
    fn shared<T: Send + Sync + 'static>() {}
    fn cloned<T: Clone + Send + Sync + 'static>() {}
    fn error<T: Error + Send + Sync + 'static>() {}
    fn token<T: Copy + Ord + Hash + std::fmt::Display + serde::Serialize + serde::de::DeserializeOwned>() {}
    shared::<LockGuard>();
    shared::<Hold>();
    cloned::<LockManager>();
    cloned::<Lease>();
    cloned::<LockLayer>();
    cloned::<MemoryNode>();
    error::<LockError>();
    error::<ConfigError>();
    error::<ConnectError>();
    error::<KeyError>();
    error::<LockRejection>();
    error::<MissingHold>();
    token::<FencingToken>();
    let _: fn(&LockGuard) -> &Lease = |guard| guard;
    // What only authors of nodes need is in a module of its own.
    let _ = lock_axum::node::ReplySender::channel;
}
