//! Test votes on real servers: `connect` and `health` say whether locks can be had, and leave nothing behind.

use std::collections::HashMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use lock_axum::readyz;
use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockManager, LockManagerBuilder, NodeError};
use lock_support::{RedisCluster, RedisServer, eventually_async};
use tower::ServiceExt as _;

fn builder(server: &RedisServer) -> LockManagerBuilder {
    LockManager::builder().redis([server.url()]).node_timeout(Duration::from_secs(1))
}

/// A server on which a set was formed.
async fn formed() -> RedisServer {
    let server = RedisServer::start().await;
    builder(&server).connect().await.unwrap();
    server
}

async fn problem(locks: &LockManager) -> Option<NodeError> {
    let mut health = locks.health().await;
    let node = health.nodes.remove(0);
    assert_eq!((health.quorum, node.admitted), (node.problem.is_none(), node.problem.is_none()));
    assert!(node.reachable);
    node.problem
}

async fn refusal(builder: LockManagerBuilder) -> Refusal {
    match builder.connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) => refusal,
        other => panic!("{other}"),
    }
}

// promise: health
#[tokio::test]
async fn a_server_in_cluster_mode_is_refused() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]).await;
    let without_slots = refusal(builder(&server)).await;
    assert!(matches!(without_slots, Refusal::ClusterMode { .. }), "{without_slots}");
    server.query::<String>("CLUSTER ADDSLOTSRANGE 0 16383").await;
    eventually_async("the cluster is up", async || {
        server.query::<String>("CLUSTER INFO").await.contains("cluster_state:ok")
    })
    .await;
    let refusal = refusal(builder(&server)).await;
    assert_eq!(refusal, Refusal::ClusterMode { detail: "cluster_enabled is 1".into() });
    assert!(refusal.to_string().contains("redis_cluster"), "{refusal}");
    let locks = builder(&server).connect_lazy().unwrap();
    eventually_async("health says so, too", async || {
        matches!(problem(&locks).await, Some(NodeError::Refused(Refusal::ClusterMode { .. })))
    })
    .await;
}

// promise: health
#[tokio::test]
async fn a_user_that_may_not_vote_is_refused_until_it_may() {
    let server = formed().await;
    let url = format!("redis://app:s3cret@{}", server.address());
    let builder = || LockManager::builder().redis([&url]).node_timeout(Duration::from_secs(1));
    let set_user = async |rights: &str| {
        server.query::<String>(&format!("ACL SETUSER app reset on >s3cret ~* &* {rights}")).await;
    };
    for command in ["evalsha", "hmget", "mget", "hset", "set", "pttl", "pexpire", "del"] {
        set_user(&format!("+@all -{command}")).await;
        let refusal = refusal(builder()).await;
        assert!(matches!(refusal, Refusal::Permission { .. }), "{command}: {refusal}");
        let locks = builder().connect_lazy().unwrap();
        let is_denied = async || matches!(problem(&locks).await, Some(NodeError::Refused(Refusal::Permission { .. })));
        eventually_async("health says so, too", is_denied).await;
        set_user("+@all").await;
        eventually_async("the right is noticed", async || problem(&locks).await.is_none()).await;
        assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    }
}

/// The code with which a server refuses writes, and the setting that makes it do so: 1 begins it, 0 ends it.
const REFUSING: [(&str, &str); 2] = [("OOM", "maxmemory"), ("NOREPLICAS", "min-replicas-to-write")];

async fn set(server: &RedisServer, setting: &str, value: u8) {
    server.query::<String>(&format!("CONFIG SET {setting} {value}")).await;
}

// promise: health
#[tokio::test]
async fn a_server_that_refuses_writes_is_reported_until_it_takes_them() {
    for (code, setting) in REFUSING {
        let server = formed().await;
        let before = builder(&server).connect().await.unwrap();
        set(&server, setting, 1).await;
        let error = builder(&server).connect().await.unwrap_err();
        let ConnectError::NoQuorum { nodes: 1, reachable: 0, unreachable } = &error else { panic!("{error}") };
        assert!(matches!(&unreachable[0].1, NodeError::Rejected { code: found, .. } if found == code), "{error}");
        let after = builder(&server).connect_lazy().unwrap();
        for locks in [&before, &after] {
            let error = problem(locks).await.unwrap();
            assert!(matches!(&error, NodeError::Rejected { code: found, .. } if found == code), "{error}");
        }
        let error = before.lock("r").try_acquire().await.unwrap_err().to_string();
        assert!(error.contains(code) && error.contains(setting) && !error.contains(".;"), "{error}");
        set(&server, setting, 0).await;
        for locks in [&before, &after] {
            assert_eq!(problem(locks).await, None);
            locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_new_server_that_refuses_writes_is_reported_with_the_reason() {
    let (code, setting) = REFUSING[1];
    let cluster = RedisCluster::start(3).await;
    set(&cluster.servers[1], setting, 1).await;
    let error = cluster.builder().connect().await.unwrap_err();
    let ConnectError::NoQuorum { unreachable, .. } = &error else { panic!("{error}") };
    let found = unreachable.iter().find(|(name, _)| *name == cluster.servers[1].address());
    assert!(matches!(found, Some((_, NodeError::Rejected { code: found, .. })) if found == code), "{error}");
    let locks = cluster.builder().connect_lazy().unwrap();
    eventually_async("health names the reason", async || {
        let problem = locks.health().await.nodes.remove(1).problem;
        matches!(problem, Some(NodeError::Rejected { code: found, .. }) if found == code)
    })
    .await;
    set(&cluster.servers[1], setting, 0).await;
    eventually_async("the set is formed", async || locks.health().await.nodes.iter().all(|node| node.admitted)).await;
}

async fn probe(app: &Router) -> (StatusCode, String) {
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    (status, String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().into()).unwrap())
}

#[tokio::test]
async fn a_service_is_not_ready_while_its_masters_answer_but_refuse_votes() {
    let (code, setting) = REFUSING[0];
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let app = Router::new().route("/readyz", readyz(locks.clone()));
    assert_eq!(probe(&app).await, (StatusCode::OK, "ready\n".to_owned()));

    set(&cluster.servers[0], setting, 1).await;
    assert_eq!(locks.ready().await, Ok(()), "a minority");
    set(&cluster.servers[1], setting, 1).await;
    eventually_async("the service is not ready", async || probe(&app).await.0 == StatusCode::SERVICE_UNAVAILABLE).await;
    let (_, reason) = probe(&app).await;
    assert!(reason.contains("1 of 3 masters can grant locks, 2 are needed"), "{reason}");
    for server in &cluster.servers[..2] {
        assert!(reason.contains(&format!("{}: {code}", server.address())) && reason.contains(setting), "{reason}");
    }

    set(&cluster.servers[1], setting, 0).await;
    eventually_async("the service is ready again", async || probe(&app).await.0 == StatusCode::OK).await;
}

// promise: health
#[tokio::test]
async fn a_test_vote_leaves_nothing_behind_and_skips_no_token() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let held = locks.lock("held").acquire().await.unwrap();
    let fences = async || {
        let mut record: HashMap<String, String> = cluster.servers[0].query("HGETALL lock:{node}").await;
        assert!(record.remove("16384").is_some(), "the fence of test votes");
        record
    };
    let everything = async || (cluster.keys("*").await, fences().await);
    let before = everything().await;
    for _ in 0..10 {
        assert!(locks.health().await.quorum);
        cluster.builder().connect().await.unwrap();
    }
    assert_eq!(everything().await, before);
    assert!(held.release().await.unwrap());
}
