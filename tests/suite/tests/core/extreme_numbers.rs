//! Nodes that say numbers which nobody can have counted to. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::node::{
    Ballot, FenceReading, FoundRecord, Inspection, Keyspace, NodeFuture, NodeRecord, Reply, ReplySender, Request,
};
use lock_core::{LockError, LockManager, LockNode, MemoryNode, NodeError, Vote};
use lock_support::{all_nodes_vote, ask};
use tokio::time::sleep;

const TTL: Duration = Duration::from_millis(300);
const EXTREMES: [u64; 3] = [1 << 53, i64::MAX.cast_unsigned(), u64::MAX];

/// A node that replaces the numbers in its replies, and in its record, while it is told to.
#[derive(Clone)]
struct Exaggerating {
    node: MemoryNode,
    number: u64,
    in_replies: Arc<AtomicBool>,
    in_record: Arc<AtomicBool>,
}

impl Exaggerating {
    fn new(number: u64) -> Self {
        Self { node: MemoryNode::new(), number, in_replies: Arc::default(), in_record: Arc::default() }
    }

    fn exaggerate(&self, record: &mut NodeRecord) {
        let number = self.number;
        (record.version, record.promised) = (number, Some(Ballot { round: number, proposer: number }));
        record.quarantines.iter_mut().for_each(|quarantine| quarantine.ends = number);
        if let Some(roster) = &mut record.roster {
            (roster.generation, roster.max_ttl, roster.quarantine_ttl) = (number, Duration::MAX, Duration::MAX);
        }
    }
}

impl LockNode for Exaggerating {
    lock_core::forward_to_node!(self => self.node; name write_record disconnected disconnect look evict);

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (node, inspection) = (self.clone(), self.node.inspect(keyspace));
        Box::pin(async move {
            let mut seen = inspection.await?;
            if node.in_record.load(Ordering::Relaxed) {
                seen.clock_micros = node.number;
                if let FoundRecord::Record(record) = &mut seen.record {
                    node.exaggerate(record);
                }
            }
            Ok(seen)
        })
    }

    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        let (node, reading) = (self.clone(), self.node.read_fences(keyspace));
        Box::pin(async move {
            let exaggerates = node.in_record.load(Ordering::Relaxed);
            let highest = |reading: FenceReading| if exaggerates { node.number } else { reading.highest };
            Ok(reading.await?.map(|reading| FenceReading { highest: highest(reading), ..reading }))
        })
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let (node, reply) = (self.clone(), ask(&self.node, request));
        tokio::spawn(async move {
            let reply = reply.await.map(|reply| match reply {
                _ if !node.in_replies.load(Ordering::Relaxed) => reply,
                Reply::Granted { .. } => Reply::Granted { token: node.number },
                Reply::Refused { .. } => Reply::Refused { fence: node.number },
                Reply::Held { stranger, position, offer, .. } => {
                    Reply::Held { remaining: Some(Duration::MAX), stranger, position, offer }
                }
                other => other,
            });
            reply_to.send(reply);
        });
    }
}

fn manager(nodes: &[Exaggerating]) -> LockManager {
    LockManager::builder().nodes(nodes.to_vec()).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap()
}

fn exaggerate(nodes: &[Exaggerating], switch: impl Fn(&Exaggerating) -> &AtomicBool, on: bool) {
    nodes.iter().for_each(|node| switch(node).store(on, Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn replies_with_numbers_beyond_2_53_are_refused_as_a_protocol_error() {
    for number in EXTREMES {
        let nodes = [(); 3].map(|()| Exaggerating::new(number));
        let locks = manager(&nodes);
        exaggerate(&nodes[..1], |node| &node.in_replies, true);
        let guard = locks.lock("r").acquire().await.unwrap();
        assert!(guard.token().get() < 1 << 53);
        let waiting = tokio::spawn(locks.lock("r").wait(TTL * 10).acquire());
        sleep(TTL * 2).await;
        assert!(guard.release().await.unwrap());
        assert!(waiting.await.unwrap().unwrap().release().await.unwrap());

        exaggerate(&nodes, |node| &node.in_replies, true);
        let error = locks.lock("s").try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
        let is_protocol = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Protocol { .. }));
        assert!(error.votes().iter().filter(|vote| is_protocol(&vote.vote)).count() >= 2, "{error:?}");
        exaggerate(&nodes, |node| &node.in_replies, false);
        sleep(TTL).await;
        assert!(locks.lock("s").acquire().await.unwrap().release().await.unwrap(), "nothing is left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn records_with_numbers_beyond_2_53_are_refused_and_are_not_passed_on() {
    for number in EXTREMES {
        let nodes = [(); 3].map(|()| Exaggerating::new(number));
        let locks = manager(&nodes);
        assert!(locks.lock("r").acquire().await.is_ok());
        for liars in [1, 3] {
            exaggerate(&nodes[..liars], |node| &node.in_record, true);
            let late = manager(&nodes);
            assert_eq!(late.lock("r").acquire().await.is_ok(), liars == 1);
            assert!(late.health().await.quorum == (liars == 1));
            // Longer than between two inspections of a node in good order.
            sleep(Duration::from_secs(60)).await;
            exaggerate(&nodes, |node| &node.in_record, false);
            for locks in [&locks, &late] {
                all_nodes_vote(locks).await;
                assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
            }
        }
    }
}
