//! Promise "turns" while the votes of a waiter's attempt are incomplete: a node that refused it calls it meanwhile. In virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::node::{Kind, Operation, OwnerId, Reply, ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode};
use lock_support::{MemoryCluster, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(20);
/// Longer than a node keeps a free lock for the first in line: 100 ms.
const NODE_TIMEOUT: Duration = Duration::from_millis(250);

/// A node as one manager reaches it: its requests arrive late.
#[derive(Clone)]
struct Late {
    node: MemoryNode,
    by: Arc<Mutex<Duration>>,
}

impl LockNode for Late {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences look evict wakeups);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        let (node, by) = (self.node.clone(), *self.by.lock().unwrap());
        if by.is_zero() {
            return node.submit(request, reply_to);
        }
        tokio::spawn(async move {
            sleep(by).await;
            node.submit(request, reply_to);
        });
    }
}

/// A manager, and its way to each of the nodes.
struct Client {
    locks: LockManager,
    nodes: Vec<Late>,
}

impl Client {
    async fn of(nodes: &[MemoryNode]) -> Self {
        let late = |node: &MemoryNode| Late { node: node.clone(), by: Arc::default() };
        let nodes: Vec<_> = nodes.iter().map(late).collect();
        let builder = LockManager::builder().nodes(nodes.clone()).ttl(TTL).max_ttl(TTL);
        let locks = builder.node_timeout(NODE_TIMEOUT).wait(WAIT).connect().await.unwrap();
        Self { locks, nodes }
    }

    fn reaches(&self, node: usize, late_by: Duration) {
        *self.nodes[node].by.lock().unwrap() = late_by;
    }
}

async fn waiting(nodes: &[MemoryNode], client: &Client, waiters: u32) {
    eventually_async("they are in the queues", async || {
        let report = client.locks.inspect("r").await.unwrap();
        report.nodes.len() == nodes.len() && report.nodes.iter().all(|node| node.waiters == waiters)
    })
    .await;
}

/// A holder, a waiter, and another one behind it. Returns how long it took until the first waiter had the lock, after the holder
/// released it on the second node late, and the first waiter's request reaches the third node so much later.
async fn first_in_line(third_is_late_by: Duration) -> (Duration, bool) {
    let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
    let (holder, first, second) = (Client::of(&nodes).await, Client::of(&nodes).await, Client::of(&nodes).await);
    let held = holder.locks.lock("r").acquire().await.unwrap();
    let began = |client: &Client| tokio::spawn(client.locks.lock("r").acquire());
    let one = began(&first);
    waiting(&nodes, &holder, 1).await;
    let other = began(&second);
    waiting(&nodes, &holder, 2).await;
    holder.reaches(1, Duration::from_millis(5));
    first.reaches(2, third_is_late_by);
    let released = Instant::now();
    drop(held);
    let guard = one.await.unwrap().unwrap();
    let (took, came_first) = (released.elapsed(), !other.is_finished());
    drop(guard);
    drop(other.await.unwrap().unwrap());
    (took, came_first)
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_waiter_that_one_node_granted_and_another_one_calls_does_not_miss_its_turn_for_the_third() {
    for late_by in [60, 100, 200, 400, 10_000] {
        let (took, came_first) = first_in_line(Duration::from_millis(late_by)).await;
        assert!(came_first, "{late_by} ms");
        assert!(took <= Duration::from_millis(60), "after {took:?}, with a node that is {late_by} ms late");
    }
}

/// How the lock ends that a waiter has won.
#[derive(Clone, Copy, Debug)]
enum End {
    Released,
    Downgraded,
    Delegated,
    Lost,
}

// promise: turns, no-leaks
#[tokio::test(start_paused = true)]
async fn a_vote_that_comes_after_the_verdict_leaves_no_position_however_the_lock_ends() {
    const MAX_HOLD: Duration = Duration::from_millis(100);
    for end in [End::Released, End::Downgraded, End::Delegated, End::Lost] {
        let (cluster, [theirs, ours]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        // On the last node, somebody else has the lock all the time, so that its late vote is a refusal.
        let others = OwnerId::from_bits(7);
        let acquire =
            Operation::Acquire { owner: others, ttl: WAIT, hint: 0, tokens: 1, since: None, kind: Kind::Write };
        assert!(matches!(cluster.raw(4).await.send("r", acquire).await, Ok(Reply::Granted { .. })));
        let held = theirs.lock("r").acquire().await.unwrap();
        let waiting = tokio::spawn(ours.lock("r").max_hold(MAX_HOLD).acquire());
        let waiters = async || theirs.inspect("r").await.unwrap().nodes.iter().map(|node| node.waiters).sum::<u32>();
        eventually_async("it is in the queues", async || waiters().await == 5).await;
        cluster.nodes[4].set_delay(Duration::from_millis(30));
        drop(held);
        let won = waiting.await.unwrap().unwrap();
        match end {
            End::Released => drop(won),
            End::Downgraded => drop(won.downgrade().await.unwrap()),
            End::Delegated => won.delegate().create().map(|_unfinished| drop(won)).unwrap(),
            End::Lost => {
                won.lost().await;
                drop(won);
            }
        }
        sleep(MAX_HOLD).await;
        assert_eq!(waiters().await, 0, "{end:?}");
    }
}
