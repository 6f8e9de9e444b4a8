//! Test votes that fail although the node passes each inspection: behind a proxy that cuts scripts, say. In virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lock_core::node::{Inspection, Keyspace, NodeFuture, Operation, ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
use tokio::time::sleep;

/// How a node answers requests.
#[derive(Clone)]
enum Answers {
    Well,
    /// With this error.
    Error(NodeError),
    /// By closing the connection.
    Cut,
}

/// A node that answers inspections in any case, and counts what it is asked for.
#[derive(Clone)]
struct OddNode {
    node: MemoryNode,
    answers: Arc<Mutex<Answers>>,
    inspections: Arc<AtomicUsize>,
    votes: Arc<AtomicUsize>,
}

impl OddNode {
    fn new() -> Self {
        Self {
            node: MemoryNode::new(),
            answers: Arc::new(Mutex::new(Answers::Well)),
            inspections: Arc::default(),
            votes: Arc::default(),
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap()
    }

    /// How many inspections and test votes it was asked for since this was last called.
    fn take_counts(&self) -> [usize; 2] {
        [&self.inspections, &self.votes].map(|count| count.swap(0, Ordering::SeqCst))
    }
}

impl LockNode for OddNode {
    lock_core::forward_to_node!(self => self.node; name write_record read_fences wakeups disconnected disconnect look evict);

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        self.inspections.fetch_add(1, Ordering::SeqCst);
        self.node.inspect(keyspace)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let is_vote = matches!(request.operation, Operation::Acquire { .. });
        self.votes.fetch_add(usize::from(is_vote), Ordering::SeqCst);
        match &*self.answers() {
            Answers::Well => self.node.submit(request, reply_to),
            Answers::Error(error) => reply_to.send(Err(error.clone())),
            Answers::Cut => {
                self.node.set_down(true);
                self.node.set_down(false);
                reply_to.send(Err(NodeError::ConnectionLost { reason: "reset".into() }));
            }
        }
    }
}

/// The answers that make a manager inspect the node again.
fn odd_answers() -> [Answers; 4] {
    [
        Answers::Cut,
        Answers::Error(NodeError::ConnectionLost { reason: "reset".into() }),
        Answers::Error(NodeError::Unadmitted),
        Answers::Error(NodeError::Elsewhere { code: "READONLY".into(), detail: String::new() }),
    ]
}

// promise: health
#[tokio::test(start_paused = true)]
async fn an_idle_manager_asks_a_node_whose_test_votes_fail_less_and_less_often() {
    for answers in odd_answers() {
        let nodes: Vec<_> = (0..3).map(|_| OddNode::new()).collect();
        *nodes[0].answers() = answers;
        let _locks = LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[0].take_counts();
        for (most_inspections, most_votes) in [(30, 15), (12, 6), (12, 6), (12, 6)] {
            sleep(Duration::from_secs(60)).await;
            let [inspections, votes] = nodes[0].take_counts();
            assert!(inspections <= most_inspections && (1..=most_votes).contains(&votes), "{inspections}, {votes}");
        }
    }
}

// promise: health
#[tokio::test(start_paused = true)]
async fn a_node_whose_test_votes_failed_is_asked_again_within_30_seconds() {
    for answers in odd_answers() {
        let nodes: Vec<_> = (0..3).map(|_| OddNode::new()).collect();
        *nodes[0].answers() = answers;
        let _locks = LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        sleep(Duration::from_secs(300)).await;
        *nodes[0].answers() = Answers::Well;
        nodes[0].take_counts();
        sleep(Duration::from_secs(31)).await;
        assert_eq!(nodes[0].take_counts()[1], 1);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(nodes[0].take_counts()[1], 0, "it granted one");
        // Its next failure is not held against it for as long as the last one.
        nodes[0].node.set_down(true);
        sleep(Duration::from_secs(10)).await;
        nodes[0].node.set_down(false);
        nodes[0].take_counts();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(nodes[0].take_counts()[1], 1);
    }
}
