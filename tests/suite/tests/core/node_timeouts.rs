//! From when on a node has its time to reply. In virtual time.

use std::time::Duration;

use lock_core::node::{ReplySender, Request};
use lock_core::{LockError, LockManager, LockNode, MemoryNode, NodeError};
use tokio::time::{Instant, sleep};

const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// A node whose requests wait for a while before they are written.
struct Congested {
    node: MemoryNode,
    written_after: Duration,
}

impl LockNode for Congested {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let (node, written_after) = (self.node.clone(), self.written_after);
        tokio::spawn(async move {
            sleep(written_after).await;
            reply_to.written();
            node.submit(request, reply_to);
        });
    }
}

/// A manager over five nodes that write a request after a while, and reply to it after another.
async fn congested(written_after: Duration, replied_after: Duration) -> LockManager {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let congested = nodes.iter().map(|node| Congested { node: node.clone(), written_after });
    let locks = LockManager::builder().nodes(congested).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    nodes.iter().for_each(|node| node.set_delay(replied_after));
    locks
}

#[tokio::test(start_paused = true)]
async fn a_nodes_time_starts_when_the_request_is_written() {
    let locks = congested(NODE_TIMEOUT / 2, NODE_TIMEOUT * 4 / 5).await;
    let started = Instant::now();
    let guard = locks.lock("r").try_acquire().await.unwrap();
    let took = NODE_TIMEOUT / 2 + NODE_TIMEOUT * 4 / 5;
    assert_eq!(started.elapsed(), took);
    // The validity counts from before that.
    let ttl = Duration::from_secs(10);
    assert!(guard.remaining() < ttl - took, "{:?}", guard.remaining());

    let locks = congested(NODE_TIMEOUT / 2, NODE_TIMEOUT * 6 / 5).await;
    let started = Instant::now();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert_eq!(started.elapsed(), NODE_TIMEOUT / 2 + NODE_TIMEOUT);
}

/// A node that asks for more time than others do.
struct Slow(MemoryNode);

impl LockNode for Slow {
    lock_core::forward_to_node!(self => self.0; name inspect write_record read_fences submit look evict);

    fn node_timeout(&self, ttl: Duration) -> Duration {
        ttl.min(Duration::from_secs(2))
    }
}

#[tokio::test(start_paused = true)]
async fn the_slowest_kind_of_node_sets_the_default_and_the_builder_wins() {
    let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
    let (ttl, wanted) = (Duration::from_secs(10), Duration::from_millis(300));
    let builder = || LockManager::builder().nodes([Slow(nodes[0].clone())]).nodes(nodes[1..].to_vec()).ttl(ttl);
    for (builder, longest) in [(builder(), Duration::from_secs(2)), (builder().node_timeout(wanted), wanted)] {
        let locks = builder.connect().await.unwrap();
        nodes.iter().for_each(|node| node.set_delay(longest * 2));
        let started = Instant::now();
        assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })));
        assert_eq!(started.elapsed(), longest);
        nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        sleep(Duration::from_secs(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_written_within_the_node_timeout_is_given_up() {
    let locks = congested(NODE_TIMEOUT * 2, Duration::ZERO).await;
    let started = Instant::now();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    let timed_out = |vote: &lock_core::NodeVote| vote.vote == lock_core::Vote::Failed(NodeError::TimedOut);
    assert!(error.votes().iter().filter(|vote| timed_out(vote)).count() >= 3, "{error}");
    assert_eq!(started.elapsed(), NODE_TIMEOUT);
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn a_process_that_was_paused_does_not_take_that_for_an_outage() {
    let ms = Duration::from_millis;
    let locks = congested(ms(1), ms(5)).await;
    let waiting = [1, 2].map(|_| tokio::spawn(locks.lock("r").wait(Duration::from_secs(30)).acquire()));
    // Both have begun, and nothing is written yet.
    tokio::task::yield_now().await;
    tokio::time::advance(ms(1_500)).await;
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
}
