//! Wake-ups that are late, lost, or never come, and requests to leave a queue that cross them. In virtual time; each manager stands for a
//! process.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lock_core::node::{Keyspace, NodeFuture, Operation, ReplySender, Request, WaiterId, Wakeups};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
use lock_support::MemoryCluster;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::node_queues::{HOLD, WAIT, processes, wait_after_release};

/// What happens just before a waiter leaves the queue.
type BeforeLeaving = Box<dyn FnOnce() + Send>;

/// A node that may send no wake-ups, and on which something may happen once, just before a waiter leaves the queue.
#[derive(Clone, Default)]
struct HookedNode {
    node: MemoryNode,
    mute: bool,
    /// Cancelled to end the wake-ups. No others begin.
    cut: CancellationToken,
    /// How long it takes until there are wake-ups.
    wakes_after: Duration,
    /// Whether wake-ups are lost on their way.
    deaf: Arc<AtomicBool>,
    /// How many acquires there were.
    acquires: Arc<AtomicUsize>,
    /// Whether the last caller that waited said that it polls.
    polled: Arc<AtomicBool>,
    /// The requests to leave a queue that are in flight, if it does not carry them out; and how many there were.
    leaving: Option<Arc<Mutex<Vec<ReplySender>>>>,
    leaves: Arc<AtomicUsize>,
    before_leaving: Arc<Mutex<Option<BeforeLeaving>>>,
}

impl LockNode for HookedNode {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if matches!(request.operation, Operation::LeaveQueue) {
            let hook = self.before_leaving.lock().unwrap().take();
            hook.into_iter().for_each(|hook| hook());
            self.leaves.fetch_add(1, Relaxed);
            if let Some(leaving) = &self.leaving {
                return leaving.lock().unwrap().push(reply_to);
            }
        }
        if matches!(request.operation, Operation::Acquire { since: Some(_), .. }) {
            self.polled.store(request.polls, Relaxed);
            self.acquires.fetch_add(1, Relaxed);
        }
        self.node.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        if self.mute || self.cut.is_cancelled() {
            return Box::pin(pending());
        }
        let (node, keyspace, cut) = (self.node.clone(), Arc::clone(keyspace), self.cut.clone());
        let (connecting, deaf) = (sleep(self.wakes_after), Arc::clone(&self.deaf));
        Box::pin(async move {
            connecting.await;
            let heard = node.wakeups(&keyspace, waiter).await?.filter(move |_| ready(!deaf.load(Relaxed)));
            Ok(heard.take_until(cut.cancelled_owned()).boxed())
        })
    }
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_woken_polls() {
    let nodes: Vec<_> = (0..5).map(|_| HookedNode { mute: true, ..HookedNode::default() }).collect();
    let connect = async || LockManager::builder().nodes(nodes.clone()).wait(WAIT).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").acquire());
    sleep(HOLD).await;
    let waited = wait_after_release(held, waiting).await;
    assert!(waited <= Duration::from_millis(260), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_polls_as_soon_as_it_cannot_be_woken_any_more() {
    let nodes: Vec<_> = (0..5).map(|_| HookedNode::default()).collect();
    let connect = async || LockManager::builder().nodes(nodes.clone()).wait(WAIT).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").acquire());
    sleep(HOLD).await;
    nodes.iter().for_each(|node| node.cut.cancel());
    sleep(Duration::from_millis(10)).await;
    let waited = wait_after_release(held, waiting).await;
    assert!(waited <= Duration::from_millis(260), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn every_node_soon_knows_whether_it_can_wake_a_process() {
    let wakes_after = |node| Duration::from_millis(if node < 3 { 0 } else { 200 });
    let nodes: Vec<_> =
        (0..5).map(|node| HookedNode { wakes_after: wakes_after(node), ..HookedNode::default() }).collect();
    let connect = async || LockManager::builder().nodes(nodes.clone()).wait(WAIT).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").acquire());
    let polled = || nodes.iter().map(|node| node.polled.load(Relaxed)).collect::<Vec<_>>();
    sleep(Duration::from_millis(60)).await;
    assert_eq!(polled(), [false, false, false, true, true]);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(polled(), [false; 5]);
    nodes[..2].iter().for_each(|node| node.cut.cancel());
    sleep(Duration::from_millis(60)).await;
    assert_eq!(polled(), [true, true, false, false, false]);
    drop(held);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_arrives_while_the_last_one_leaves_gets_its_own_queue_position() {
    let node = HookedNode::default();
    let connect = async || LockManager::builder().nodes([node.clone()]).wait(WAIT).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let held = one.lock("r").acquire().await.unwrap();
    let leaves = tokio::spawn(other.lock("r").acquire());
    sleep(HOLD).await;
    let (sender, came) = oneshot::channel();
    *node.before_leaving.lock().unwrap() = Some(Box::new(move || {
        let mut comes = Box::pin(other.lock("r").acquire());
        assert!(comes.as_mut().now_or_never().is_none());
        sender.send(comes).ok();
    }));
    leaves.abort();
    let comes = came.await.unwrap();
    let comes = tokio::spawn(comes);
    sleep(Duration::from_millis(50)).await;
    let waited = wait_after_release(held, comes).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_calls_while_a_request_to_leave_is_in_flight_is_not_sent_another() {
    let node = HookedNode { leaving: Some(Arc::default()), ..HookedNode::default() };
    let connect = async || LockManager::builder().nodes([node.clone()]).wait(WAIT).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    // How many requests to leave there were before a caller that has left is called, and after.
    let called_after_leaving = async |resource: &str, fails: bool| {
        let held = one.lock(resource).acquire().await.unwrap();
        let leaves = tokio::spawn(other.lock(resource).acquire());
        sleep(HOLD).await;
        leaves.abort();
        sleep(Duration::from_millis(10)).await;
        if fails {
            node.leaving.as_ref().unwrap().lock().unwrap().clear();
            sleep(Duration::from_millis(10)).await;
        }
        let before = node.leaves.load(Relaxed);
        held.release().await.unwrap();
        sleep(Duration::from_millis(10)).await;
        (before, node.leaves.load(Relaxed))
    };
    assert_eq!(called_after_leaving("in flight", false).await, (1, 1));
    assert_eq!(called_after_leaving("failed", true).await, (2, 3), "the position may be there for good");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn wakeups_from_a_majority_are_enough() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 2).await;
    cluster.nodes[..2].iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    let held = managers[0].lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(HOLD).await;
    drop(held);
    let released = Instant::now();
    waiting.await.unwrap().unwrap().release().await.ok();
    assert!(released.elapsed() < Duration::from_millis(60), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_early_wakeup_is_not_lost() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 2).await;
    // The second manager has waited before, so that it already listens for wake-ups.
    let held = managers[0].lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(HOLD).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let other = managers[0].lock("another").acquire().await.unwrap();
    let listens = tokio::spawn(managers[1].lock("another").acquire());
    sleep(HOLD).await;

    let held = managers[0].lock("r").acquire().await.unwrap();
    let slow = Duration::from_millis(30);
    cluster.nodes[4].set_down(true);
    cluster.nodes[2..4].iter().for_each(|node| node.set_delay(slow));
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(slow / 3).await;
    drop(held);
    let released = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() <= slow * 2 + Duration::from_millis(5), "{:?}", released.elapsed());
    drop((guard, other));
    listens.await.unwrap().unwrap().release().await.unwrap();
}

/// A manager over these nodes whose wake-ups can be lost, and by what; and one of its nodes.
async fn deafened(cluster: &MemoryCluster) -> (LockManager, Arc<AtomicBool>, HookedNode) {
    let deaf = Arc::new(AtomicBool::new(true));
    let hooked =
        |node: &MemoryNode| HookedNode { node: node.clone(), deaf: Arc::clone(&deaf), ..HookedNode::default() };
    let nodes: Vec<_> = cluster.nodes.iter().map(hooked).collect();
    let locks = LockManager::builder().nodes(nodes.clone()).wait(WAIT).connect().await.unwrap();
    (locks, deaf, nodes[0].clone())
}

/// How many turns each of the managers has in 8 seconds, if all of them want the lock all the time.
async fn turns(managers: &[LockManager]) -> Vec<u32> {
    let ends = Instant::now() + Duration::from_secs(8);
    let take_turns = |locks: LockManager| async move {
        let mut turns = 0;
        while Instant::now() < ends {
            let guard = locks.lock("r").acquire().await.unwrap();
            sleep(Duration::from_millis(5)).await;
            guard.release().await.unwrap();
            turns += 1;
        }
        turns
    };
    join_all(managers.iter().cloned().map(take_turns)).await
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_process_whose_wakeups_are_lost_has_its_turns() {
    let cluster = MemoryCluster::new(5);
    let heard = processes(&cluster, 1).await.remove(0);
    let managers = [heard, deafened(&cluster).await.0];
    let first = turns(&managers).await;
    // Until the first timer fires, it does not know.
    assert!(first[1] >= 80, "{first:?}");
    let then = turns(&managers).await;
    assert!(then[1] * 10 >= then[0] * 9 && then[1] >= 120, "{then:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn processes_whose_wakeups_are_lost_do_not_stop_the_others() {
    let cluster = MemoryCluster::new(3);
    let mut managers = processes(&cluster, 16).await;
    for _ in 0..16 {
        managers.push(deafened(&cluster).await.0);
    }
    let turns = turns(&managers).await;
    let (heard, deaf) = (turns[..16].iter().sum::<u32>(), turns[16..].iter().sum::<u32>());
    assert!(deaf * 2 >= heard && turns.iter().all(|turns| *turns >= 2), "{turns:?}");
    assert!(heard + deaf >= 8 * 15, "{turns:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_process_that_hears_wakeups_again_sleeps_until_one_comes() {
    let cluster = MemoryCluster::new(3);
    let heard = processes(&cluster, 1).await.remove(0);
    let (deaf, is_deaf, node) = deafened(&cluster).await;
    let managers = [heard, deaf];
    turns(&managers).await;
    let polls = async || {
        let held = managers[0].lock("other").acquire().await.unwrap();
        let waiting = tokio::spawn(managers[1].lock("other").acquire());
        sleep(Duration::from_secs(1)).await;
        let before = node.acquires.load(Relaxed);
        sleep(HOLD).await;
        let polls = node.acquires.load(Relaxed) - before;
        drop(held);
        waiting.await.unwrap().unwrap().release().await.unwrap();
        polls
    };
    let polled = polls().await;
    assert!(polled >= 50, "it does not poll: {polled}");
    is_deaf.store(false, Relaxed);
    turns(&managers).await;
    let polled = polls().await;
    assert!(polled <= 12, "it polls: {polled}");
}
