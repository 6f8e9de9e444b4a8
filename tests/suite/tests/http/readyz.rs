//! Readiness: what probes are answered, how soon, and what it costs. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use lock_axum::node::{Keyspace, Operation, ReplySender, Request as NodeRequest};
use lock_axum::{LockManager, LockNode, MemoryNode, readyz};
use lock_support::http::{Response, manager, nodes};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;

/// How long an answer is used again.
const MAX_AGE: Duration = Duration::from_secs(1);

fn app(locks: &LockManager) -> Router {
    Router::new().route("/readyz", readyz(locks.clone()))
}

async fn probe(app: &Router) -> Response {
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Response { status: parts.status, headers: parts.headers, body }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_ready_while_a_majority_votes_and_says_why_when_it_does_not() {
    let nodes = nodes();
    let app = app(&manager(&nodes));
    assert_eq!(probe(&app).await.text(), "ready\n");
    sleep(MAX_AGE).await;
    nodes[..2].iter().for_each(|node| node.set_down(true));
    assert_eq!(probe(&app).await.status, StatusCode::OK);

    nodes[2].set_down(true);
    sleep(MAX_AGE).await;
    let answer = probe(&app).await;
    assert_eq!((answer.status, answer.kind()), (StatusCode::SERVICE_UNAVAILABLE, "lock-unavailable".to_owned()));
    assert_eq!(answer.retry_after(), Some(1));
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("2 of 5 masters can grant locks, 3 are needed: "), "{detail}");
    for node in &nodes[..3] {
        assert!(detail.contains(&format!("{}: not reachable", node.name())), "{detail}");
    }

    nodes[2].set_down(false);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(probe(&app).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_service_is_not_ready_once_its_manager_is_closed() {
    let locks = LockManager::in_memory();
    let app = app(&locks);
    assert_eq!(probe(&app).await.text(), "ready\n");
    locks.close();
    sleep(MAX_AGE).await;
    let answer = probe(&app).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.problem()["detail"], "the lock manager is closed");
}

#[tokio::test(start_paused = true)]
async fn a_hung_minority_delays_no_answer_and_a_hung_majority_delays_it_for_three_seconds_at_most() {
    let nodes = nodes();
    let locks = manager(&nodes);
    assert!(locks.health().await.quorum);
    let app = app(&locks);
    let hung = Duration::from_secs(3600);
    nodes[..2].iter().for_each(|node| node.set_delay(hung));
    let asked = Instant::now();
    assert_eq!(probe(&app).await.status, StatusCode::OK);
    assert_eq!(asked.elapsed(), Duration::ZERO);

    nodes[2].set_delay(hung);
    sleep(MAX_AGE).await;
    let asked = Instant::now();
    let answer = probe(&app).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("no reply in time") && asked.elapsed() <= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_gives_up_leaves_its_answer_to_the_next_one() {
    let nodes = nodes();
    let locks = manager(&nodes);
    assert!(locks.health().await.quorum);
    let app = app(&locks);
    nodes.iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    let asked = Instant::now();
    for _ in 0..2 {
        assert!(timeout(Duration::from_millis(900), probe(&app)).await.is_err());
    }
    assert_eq!(probe(&app).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(asked.elapsed() <= Duration::from_secs(3), "{:?}", asked.elapsed());
}

/// A node that counts the test votes that it is asked for.
#[derive(Clone)]
pub(crate) struct CountingNode {
    node: MemoryNode,
    test_votes: Arc<AtomicUsize>,
}

impl CountingNode {
    pub(crate) fn new() -> Self {
        Self { node: MemoryNode::new(), test_votes: Arc::default() }
    }

    pub(crate) fn test_votes(&self) -> usize {
        self.test_votes.load(Ordering::SeqCst)
    }
}

impl LockNode for CountingNode {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences wakeups disconnected disconnect look evict);

    fn submit(&self, request: NodeRequest, reply_to: ReplySender) {
        if matches!(request.operation, Operation::Acquire { .. }) {
            self.test_votes.fetch_add(usize::from(request.keys.fence() == Keyspace::TEST_FENCE), Ordering::SeqCst);
        }
        self.node.submit(request, reply_to);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_probes_within_a_second_ask_the_masters_once() {
    let node = CountingNode::new();
    let locks = LockManager::builder().nodes([node.clone()]).connect().await.unwrap();
    let before = node.test_votes();
    node.node.set_delay(Duration::from_millis(20));
    let app = app(&locks);
    for asked in 1..4 {
        let answers = futures_util::future::join_all((0..1000).map(|_| probe(&app))).await;
        assert!(answers.iter().all(|answer| answer.status == StatusCode::OK));
        assert_eq!(node.test_votes(), before + asked);
        sleep(MAX_AGE).await;
    }
}
