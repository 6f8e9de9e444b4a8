//! How soon a manager finds out what a node has become.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::node::{Inspection, Keyspace, NodeFuture, NodeRecord, RecordWrite, ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
use lock_support::{MemoryCluster, all_nodes_vote, eventually_async};
use tokio::time::{Instant, sleep};

/// A node behind an address that leads to another one later, and the times at which it answered an inspection.
#[derive(Clone)]
struct Address {
    node: MemoryNode,
    leads_to: Arc<Mutex<MemoryNode>>,
    answered: Arc<Mutex<Vec<Instant>>>,
}

impl LockNode for Address {
    lock_core::forward_to_node!(self => self.node; name read_fences look evict);

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (inspecting, answered) = (self.leads_to.lock().unwrap().inspect(keyspace), Arc::clone(&self.answered));
        Box::pin(async move {
            let found = inspecting.await;
            if found.is_ok() {
                answered.lock().unwrap().push(Instant::now());
            }
            found
        })
    }

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        self.node.write_record(keyspace, write)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.node.submit(request, reply_to);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_again_is_inspected_at_short_intervals() {
    let (cluster, others) = (MemoryCluster::new(3), MemoryCluster::new(3));
    LockManager::builder().nodes(others.nodes.clone()).connect().await.unwrap();
    let addresses = [0, 1, 2].map(|index: usize| Address {
        node: cluster.nodes[index].clone(),
        leads_to: Arc::new(Mutex::new(cluster.nodes[index].clone())),
        answered: Arc::default(),
    });
    let locks = LockManager::builder().nodes(addresses.clone()).connect().await.unwrap();
    let [moved, ..] = &addresses;
    cluster.nodes[0].set_down(true);
    // By now, the pauses between two attempts to reach it have their full length of two seconds.
    sleep(Duration::from_secs(60)).await;

    // It belongs to another set, for which this manager can do nothing but look again.
    let back = Instant::now();
    *moved.leads_to.lock().unwrap() = others.nodes[0].clone();
    cluster.nodes[0].set_down(false);
    let answers = || moved.answered.lock().unwrap().iter().copied().filter(|at| *at > back).collect::<Vec<_>>();
    eventually_async("it was inspected several times", async || answers().len() > 3).await;
    let pauses: Vec<_> = answers().windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[0] < Duration::from_millis(100), "{pauses:?}");
    assert!(pauses[2] > pauses[0], "and at longer ones as nothing changes: {pauses:?}");
    assert!(locks.lock("r").try_acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_set_is_formed_without_a_node_that_is_slow_to_answer_at_first() {
    let cluster = MemoryCluster::new(3);
    let delay = Duration::from_millis(500);
    cluster.nodes[0].set_delay(delay);
    let locks = cluster.builder().form_with_missing(true).node_timeout(2 * delay).connect_lazy().unwrap();
    all_nodes_vote(&locks).await;
    assert_eq!(locks.health().await.generation, Some(1), "it would have joined a set of the others later");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_data_are_an_earlier_copy_grants_nothing_before_a_quarantine() {
    let cluster = MemoryCluster::new(1);
    let (ours, theirs) = (cluster.manager(), cluster.manager());
    let backup = {
        assert!(ours.lock("r").acquire().await.unwrap().release().await.unwrap());
        cluster.nodes[0].backup()
    };
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    // Both have looked at it since. One that had not would not know, and what it writes soon makes the log as long as it was.
    for locks in [&ours, &theirs] {
        locks.health().await;
    }
    cluster.nodes[0].restore(&backup);
    let began = Instant::now();
    loop {
        if let Ok(next) = theirs.lock("r").try_acquire().await {
            assert!(!held.is_valid() && next.token() > held.token(), "{:?}", began.elapsed());
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
