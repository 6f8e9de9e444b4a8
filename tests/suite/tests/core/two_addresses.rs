//! Two addresses of one master in one list: a vote belongs to a seat, and is counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::node::{Inspection, Keyspace, NodeFuture, ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError, Vote};
use lock_support::{MemoryCluster, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(2);
/// How long the first inspection over a slow address takes.
const SLOW: Duration = Duration::from_millis(30);

const HOUR: Duration = Duration::from_secs(3600);

/// An address of a node, with a link of its own.
#[derive(Clone)]
struct Address {
    name: &'static str,
    node: MemoryNode,
    /// How long an inspection takes over this address.
    delay: Duration,
    is_cut: Arc<AtomicBool>,
}

impl Address {
    fn of(name: &'static str, node: &MemoryNode) -> Self {
        Self { name, node: node.clone(), delay: Duration::ZERO, is_cut: Arc::default() }
    }

    fn slow(self) -> Self {
        Self { delay: SLOW, ..self }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}

fn cut_off() -> NodeError {
    NodeError::Unreachable { reason: "the link is cut".into() }
}

impl LockNode for Address {
    lock_core::forward_to_node!(self => self.node; write_record read_fences look evict disconnect);

    fn name(&self) -> &str {
        self.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (inspected, this) = (self.node.inspect(keyspace), self.clone());
        Box::pin(async move {
            sleep(this.delay).await;
            if this.is_cut() { Err(cut_off()) } else { inspected.await }
        })
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if self.is_cut() {
            return reply_to.send(Err(cut_off()));
        }
        self.node.submit(request, reply_to);
    }

    fn disconnected(&self) -> NodeFuture<()> {
        let this = self.clone();
        Box::pin(async move {
            while !this.is_cut() {
                sleep(Duration::from_millis(5)).await;
            }
        })
    }
}

fn manager(addresses: &[&Address]) -> LockManager {
    let nodes = addresses.iter().map(|address| (*address).clone());
    LockManager::builder().nodes(nodes).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap()
}

/// Three masters that form a set, and a manager whose link to the second one is cut.
async fn three_masters() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(3);
    let [first, second, third] =
        [("one", 0), ("two", 1), ("three", 2)].map(|(name, n)| Address::of(name, &cluster.nodes[n]));
    let locks = manager(&[&first, &second, &third]);
    eventually_async("all vote", async || locks.health().await.nodes.iter().all(|node| node.admitted)).await;
    second.cut(true);
    (cluster, locks)
}

/// The list of a manager that names the second master twice, and the first one never.
fn named_twice(cluster: &MemoryCluster) -> [Address; 3] {
    [
        Address::of("slow", &cluster.nodes[1]).slow(),
        Address::of("two", &cluster.nodes[1]),
        Address::of("three", &cluster.nodes[2]),
    ]
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_master_that_joins_over_a_second_address_is_not_counted_twice() {
    let (cluster, theirs) = three_masters().await;
    let held = theirs.lock("r").acquire().await.unwrap();
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    let refused = ours.lock("r").try_acquire().await.expect_err("a master counts twice");
    let votes = refused.votes();
    assert!(
        matches!(&votes[0].vote, Vote::Failed(NodeError::Refused(Refusal::Duplicate { other })) if other == "two"),
        "{votes:?}"
    );
    assert!(held.is_valid());
    assert!(held.release().await.unwrap());
}

// promise: membership, fencing
#[tokio::test(start_paused = true)]
async fn the_clock_of_a_master_counts_once_whatever_addresses_it_has() {
    let (cluster, theirs) = three_masters().await;
    let before = theirs.lock("r").acquire().await.unwrap().token();
    drop(theirs);
    cluster.nodes[1].advance_clock(HOUR);
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    eventually_async("both masters vote", async || ours.health().await.quorum).await;
    let token = ours.lock("s").acquire().await.unwrap().token();
    assert!(u128::from(token.get() - before.get()) < HOUR.as_micros() / 2, "one wrong clock of two was believed");
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_set_of_locks_counts_no_master_twice() {
    let (cluster, theirs) = three_masters().await;
    let held = theirs.lock("a").acquire().await.unwrap();
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    assert!(ours.lock_all(["a", "b"]).try_acquire().await.is_err());
    assert!(held.is_valid());
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn what_was_granted_over_one_address_is_released_over_the_other() {
    let (cluster, theirs) = three_masters().await;
    drop(theirs);
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    let guard = ours.lock("r").acquire().await.unwrap();
    // By now, the address that granted is refused: the one that is named first has the vote.
    assert!(!ours.health().await.nodes[1].admitted);
    let released = Instant::now();
    assert!(guard.release().await.unwrap(), "both masters had it");
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
    assert_eq!(released.elapsed(), Duration::ZERO);
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn what_was_granted_over_an_address_that_is_lost_is_released_over_the_other() {
    let (cluster, theirs) = three_masters().await;
    drop(theirs);
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    eventually_async("the first address has the vote", async || ours.health().await.nodes[0].admitted).await;
    let guard = ours.lock("r").acquire().await.unwrap();
    slow.cut(true);
    eventually_async("the second address has the vote", async || ours.health().await.nodes[1].admitted).await;
    assert!(guard.is_valid(), "renewals count the seat, whatever the address");
    guard.release().await.unwrap();
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_failed_attempt_over_two_addresses_leaves_nothing_behind() {
    let (cluster, theirs) = three_masters().await;
    let held = theirs.lock("r").acquire().await.unwrap();
    let [slow, two, three] = named_twice(&cluster);
    let ours = manager(&[&slow, &two, &three]);
    assert!(ours.lock("r").try_acquire().await.is_err());
    eventually_async("the second master has no key", async || cluster.nodes[1].lock_keys().is_empty()).await;
    assert!(held.release().await.unwrap());
    assert!(ours.lock("r").acquire().await.unwrap().release().await.unwrap());
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn one_master_over_two_addresses_is_no_quorum() {
    let (cluster, theirs) = three_masters().await;
    drop(theirs);
    let [slow, two, three] = named_twice(&cluster);
    three.cut(true);
    let ours = manager(&[&slow, &two, &three]);
    for _ in 0..10 {
        assert!(!ours.health().await.quorum);
        assert!(ours.ready().await.is_err());
        sleep(SLOW / 4).await;
    }
}
