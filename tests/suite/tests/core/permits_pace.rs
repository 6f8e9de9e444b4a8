//! How fast permits change hands between processes, in virtual time: against the pace of holders that never wait for a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode};
use lock_support::{MemoryCluster, ask};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// The connection of one process to a node. Messages keep their order, and each takes another time: so the requests of several
/// processes reach each node in another order.
#[derive(Clone)]
struct Distant {
    node: MemoryNode,
    requests: mpsc::UnboundedSender<(Request, ReplySender)>,
}

impl Distant {
    fn new(node: &MemoryNode, seed: u64) -> Self {
        let (requests, mut received) = mpsc::unbounded_channel();
        let (to, travels) = (node.clone(), Travel(Arc::new(AtomicU64::new(seed))));
        tokio::spawn(async move {
            while let Some((request, reply_to)) = received.recv().await {
                sleep(travels.next()).await;
                let (reply, travels) = (ask(&to, request), travels.clone());
                tokio::spawn(async move {
                    let reply = reply.await;
                    sleep(travels.next()).await;
                    ReplySender::send(reply_to, reply);
                });
            }
        });
        Self { node: node.clone(), requests }
    }
}

/// How long messages travel: 50 to 300 µs, and one in 200 takes 10 ms.
#[derive(Clone)]
struct Travel(Arc<AtomicU64>);

impl Travel {
    fn next(&self) -> Duration {
        let number = |seed: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn =
            number(self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| Some(number(seed))).unwrap());
        let drawn = drawn >> 33;
        Duration::from_micros(if drawn % 200 == 0 { 10_000 } else { 50 + drawn % 250 })
    }
}

impl LockNode for Distant {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences wakeups disconnected disconnect look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        // The task ends with the runtime, and nobody awaits a reply then.
        drop(self.requests.send((request, reply_to)));
    }
}

const PROCESSES: u64 = 6;
const TASKS: u32 = 3;
const LENGTH: Duration = Duration::from_secs(5);

/// Grants in [`LENGTH`], and the longest wait. No wait fails.
async fn measure(nodes: usize, permits: u32, hold: Duration) -> (u32, Duration) {
    let cluster = MemoryCluster::new(nodes);
    let mut callers = Vec::new();
    for process in 0..PROCESSES {
        let links: Vec<_> =
            (0_u64..).zip(&cluster.nodes).map(|(at, node)| Distant::new(node, 100 * process + at)).collect();
        let locks = LockManager::builder().nodes(links).wait(Duration::from_secs(60)).connect().await.unwrap();
        for _ in 0..TASKS {
            let locks = locks.clone();
            callers.push(tokio::spawn(async move {
                let (began, mut grants, mut longest) = (Instant::now(), 0, Duration::ZERO);
                while began.elapsed() < LENGTH {
                    let asked = Instant::now();
                    let permit = locks.permits("export", permits).acquire().await.unwrap();
                    longest = longest.max(asked.elapsed());
                    grants += 1;
                    sleep_until(Instant::now() + hold).await;
                    drop(permit);
                }
                (grants, longest)
            }));
        }
    }
    let of_callers: Vec<(u32, Duration)> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    let longest = of_callers.iter().map(|(_, longest)| *longest).max().unwrap();
    (of_callers.iter().map(|(grants, _)| grants).sum(), longest)
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn permits_between_processes_are_granted_at_the_pace_of_their_slots() {
    let hold = Duration::from_millis(50);
    for nodes in [1, 3, 5] {
        for permits in [2, 5, 16] {
            let (grants, longest) = measure(nodes, permits, hold).await;
            // If no slot were ever free, and each caller waited for its turn.
            let ideal = permits * u32::try_from(LENGTH.as_millis() / hold.as_millis()).unwrap();
            let ideal_wait = hold * u32::try_from(PROCESSES).unwrap() * TASKS / permits;
            let what = format!("{nodes} nodes, {permits} permits: {grants} of {ideal}, {longest:?} for {ideal_wait:?}");
            assert!(grants * 10 >= ideal * 9 && longest <= 2 * ideal_wait, "{what}");
        }
    }
}
