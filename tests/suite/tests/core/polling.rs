//! Managers that no node can wake: they take turns by asking again. In virtual time.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{ReplySender, Request};
use lock_core::{LockManager, LockNode, MemoryNode};
use lock_support::{MemoryCluster, Recorder};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

const ROUND_TRIP: Duration = Duration::from_millis(1);
const INSIDE: Duration = Duration::from_millis(2);

/// A node that cannot wake anybody.
struct Mute(Recorder<MemoryNode>);

impl LockNode for Mute {
    lock_core::forward_to_node!(self => self.0; name inspect write_record read_fences disconnected disconnect look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.0.submit(request, reply_to);
    }
}

/// How many turns each manager has while all of them want one lock.
async fn turns(managers: &[LockManager], hold: Duration, length: Duration) -> Vec<usize> {
    let until = Instant::now() + length;
    let mut tasks = JoinSet::new();
    for locks in managers {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut turns = 0;
            while let Ok(guard) = timeout_at(until, locks.lock("r").acquire()).await {
                let guard = guard.unwrap();
                sleep(hold).await;
                guard.release().await.unwrap();
                turns += 1;
            }
            turns
        });
    }
    tasks.join_all().await
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn processes_that_poll_have_half_of_the_turns_of_those_that_are_woken() {
    let length = Duration::from_secs(10);
    for managers in [2, 16, 64] {
        let cluster = MemoryCluster::new(5);
        let recorder = Recorder::new(cluster.nodes[0].clone());
        let nodes = || {
            let others = cluster.nodes[1..].iter().cloned().map(Recorder::new);
            std::iter::once(recorder.clone()).chain(others).map(Mute)
        };
        let (mut polling, mut woken) = (Vec::new(), Vec::new());
        for _ in 0..managers {
            let wait = Duration::from_secs(60);
            polling.push(LockManager::builder().nodes(nodes()).wait(wait).connect().await.unwrap());
            woken.push(cluster.builder().wait(wait).connect().await.unwrap());
        }
        cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        let most: usize = turns(&woken, INSIDE, length).await.iter().sum();
        let each = turns(&polling, INSIDE, length).await;
        let (all, requests) = (each.iter().sum::<usize>(), recorder.requests().len());
        println!("{managers}: {all} turns and {requests} requests, {most} when woken");
        assert!(all * 2 >= most, "{managers}: {all} of {most}");
        assert!(each.iter().all(|turns| turns * managers * 2 >= all), "{managers}: {each:?}");
        assert!(requests <= all * 12, "{managers}: {requests} requests for {all} turns");
    }
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn processes_that_poll_a_lock_that_is_held_for_long_ask_seldom() {
    let cluster = MemoryCluster::new(5);
    let recorder = Recorder::new(cluster.nodes[0].clone());
    let nodes = || {
        let others = cluster.nodes[1..].iter().cloned().map(Recorder::new);
        std::iter::once(recorder.clone()).chain(others).map(Mute)
    };
    let holder = cluster.builder().connect().await.unwrap();
    let held = holder.lock("r").acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..32 {
        let locks = LockManager::builder().nodes(nodes()).wait(Duration::from_secs(60)).connect().await.unwrap();
        waiting.spawn(async move { locks.lock("r").acquire().await.unwrap().release().await.unwrap() });
    }
    sleep(Duration::from_secs(5)).await;
    let before = recorder.requests().len();
    sleep(Duration::from_secs(10)).await;
    let asked = recorder.requests().len() - before;
    assert!(asked <= 32 * 10 * 10, "{asked}");
    held.release().await.unwrap();
    let released = Instant::now();
    while let Some(released) = waiting.join_next().await {
        released.unwrap();
    }
    assert!(released.elapsed() < Duration::from_secs(3), "{:?}", released.elapsed());
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_process_that_begins_with_one_node_down_and_another_mute_has_its_turns() {
    let cluster = MemoryCluster::new(3);
    let wait = Duration::from_secs(60);
    let mut managers = Vec::new();
    for _ in 0..2 {
        managers.push(cluster.builder().wait(wait).connect().await.unwrap());
    }
    cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
    // From now on, their queue is never empty.
    let busy = managers.clone();
    let before = tokio::spawn(async move { turns(&busy, INSIDE, Duration::from_secs(1)).await });
    sleep(Duration::from_millis(500)).await;
    cluster.nodes[0].set_down(true);
    let [down, mute, woken] = &cluster.nodes[..] else { unreachable!() };
    let mute = Mute(Recorder::new(mute.clone()));
    let nodes: [Arc<dyn LockNode>; 3] = [Arc::new(down.clone()), Arc::new(mute), Arc::new(woken.clone())];
    managers.push(LockManager::builder().nodes(nodes).wait(wait).connect().await.unwrap());
    before.await.unwrap();
    let each = turns(&managers, INSIDE, Duration::from_secs(10)).await;
    let all: usize = each.iter().sum();
    assert!(each.iter().all(|turns| turns * 12 >= all), "{each:?}");
}
