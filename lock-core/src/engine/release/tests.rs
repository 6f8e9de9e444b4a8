use tokio::time::sleep;

use super::*;
use crate::cluster::{Beside, Cluster};
use crate::engine::Background;
use crate::node::{Keyspace, LockNode, MemoryNode, ReplySender, Request};
use crate::quorum::MembershipConfig;
use crate::random::Random;
use crate::resource::Resource;

const TTL: Duration = Duration::from_secs(10);

async fn engine() -> (Vec<MemoryNode>, Arc<Engine>) {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let engine = engine_of(nodes.clone()).await;
    (nodes, engine)
}

pub(in crate::engine) async fn engine_of<N: LockNode>(nodes: Vec<N>) -> Arc<Engine> {
    let config = MembershipConfig::of(nodes.iter().map(LockNode::name));
    let masters = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>).collect();
    let (background, random) = (Background::new(), Arc::new(Random::from_seed(1)));
    let cluster =
        Cluster::new(masters, Keyspace::new(""), config, Beside::alone(), random, Arc::default(), background.stopped());
    let engine = Arc::new(Engine::new(Arc::new(cluster), &background, None));
    engine.background.home.start();
    engine.cluster.all_joined().await;
    engine
}

/// Releases what may be on these nodes.
fn release(engine: &Arc<Engine>, nodes: NodeSet) -> Release {
    let keys = engine.cluster.keyspace.keys(&Resource::parse("r").unwrap());
    let (owner, position) = (engine.cluster.random.owner(), QueuePosition::None);
    let tracked = Some(engine.background.tracker.token());
    Release::send(engine, &Footprint { keys, owner, ttl: TTL, nodes, position }, false, tracked)
}

#[tokio::test(start_paused = true)]
async fn nodes_that_cannot_have_the_key_decide_while_the_others_hang() {
    let (nodes, engine) = engine().await;
    // As after an attempt to which three nodes replied that the lock is held, and two did not reply.
    let mut nodes_asked = NodeSet::default();
    for (node, hung) in nodes[..2].iter().enumerate() {
        hung.set_delay(Duration::from_secs(3600));
        nodes_asked.insert(node);
    }
    let started = Instant::now();
    let verdict = release(&engine, nodes_asked).verdict().await;
    assert_eq!((verdict, started.elapsed()), (Ok(false), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_in_the_background_only_if_a_node_has_not_replied() {
    let (nodes, engine) = engine().await;
    drop(release(&engine, NodeSet::all(5)));
    assert_eq!(engine.background.tracker.len(), 0);

    nodes[4].set_delay(Duration::from_secs(1));
    assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
    assert_ne!(engine.background.tracker.len(), 0);
    engine.background.tracker.close();
    let began = Instant::now();
    engine.background.tracker.wait().await;
    assert_eq!(began.elapsed(), Duration::from_secs(1), "until it has");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_reply_would_decide_nothing_is_asked_again_if_it_is_lost() {
    let (nodes, engine) = engine().await;
    let (tracker, hour) = (&engine.background.tracker, Duration::from_secs(3600));
    nodes[4].set_delay(hour);
    assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
    nodes[4].set_down(true);
    sleep(TTL / 2).await;
    assert_ne!(tracker.len(), 0, "the node is away");
    nodes[4].set_delay(Duration::ZERO);
    nodes[4].set_down(false);
    tracker.close();
    let began = Instant::now();
    tracker.wait().await;
    assert!(began.elapsed() < TTL / 2, "before the key expires");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_has_a_task_only_when_its_time_is_over() {
    let (nodes, engine) = engine().await;
    nodes.iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    let (began, tracker) = (Instant::now(), &engine.background.tracker);
    drop(release(&engine, NodeSet::all(5)));
    sleep(engine.node_timeout(TTL) / 2).await;
    assert_eq!(tracker.len(), 1, "the release itself");
    sleep(engine.node_timeout(TTL)).await;
    assert_eq!(tracker.len(), 2, "and its task");
    tracker.close();
    tracker.wait().await;
    assert!((TTL..2 * TTL).contains(&began.elapsed()), "until the key expires: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_only_a_node_that_hangs_has_not_acknowledged_ends_when_the_key_has_expired() {
    let (nodes, engine) = engine().await;
    nodes[4].set_delay(Duration::from_secs(3600));
    let began = Instant::now();
    assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
    engine.background.tracker.close();
    engine.background.tracker.wait().await;
    assert!((TTL..2 * TTL).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[test]
fn a_release_goes_on_on_the_next_runtime_if_its_own_is_shut_down() {
    let on_a_runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let runtime = on_a_runtime();
    let (nodes, engine) = runtime.block_on(engine());
    let tracker = &engine.background.tracker;
    tracker.close();
    // In a task, because the nodes are away.
    nodes.iter().for_each(|node| node.set_down(true));
    runtime.block_on(async {
        drop(release(&engine, NodeSet::all(5)));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(tracker.len(), 2, "the release itself, and its task");
    });
    drop(runtime);
    nodes.iter().for_each(|node| node.set_down(false));
    assert_eq!(tracker.len(), 1, "the release itself");
    on_a_runtime().block_on(async {
        engine.background.home.start();
        let began = Instant::now();
        tracker.wait().await;
        assert!(began.elapsed() < TTL / 2, "{:?}", began.elapsed());
    });
}

#[test]
fn a_release_whose_runtime_was_shut_down_does_not_keep_the_engine() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (nodes, engine) = runtime.block_on(engine());
    nodes.iter().for_each(|node| node.set_down(true));
    runtime.block_on(async { drop(release(&engine, NodeSet::all(5))) });
    let (kept, stopped) = (Arc::downgrade(&engine), engine.background.stopped());
    drop((engine, runtime));
    assert!(kept.upgrade().is_none() && stopped.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn releases_that_nobody_waits_for_end_with_the_manager() {
    let (nodes, engine) = engine().await;
    // Decided by a majority.
    nodes[4].set_delay(Duration::from_secs(3600));
    assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
    nodes.iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    drop(release(&engine, NodeSet::all(5)));
    engine.background.tracker.close();
    engine.background.finished.cancel();
    engine.background.unawaited.end();
    // Of a guard that is dropped after that.
    drop(release(&engine, NodeSet::all(5)));
    let began = Instant::now();
    engine.background.tracker.wait().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A node that keeps each release back for a while before it writes it, and replies after as long again.
struct Backlog(MemoryNode, Duration);

impl LockNode for Backlog {
    crate::forward_to_node!(self => self.0; name inspect write_record read_fences look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if request.keys.fence() == Keyspace::TEST_FENCE {
            return self.0.submit(request, reply_to);
        }
        let (node, wait) = (self.0.clone(), self.1);
        tokio::spawn(async move {
            sleep(wait).await;
            reply_to.written();
            sleep(wait).await;
            node.submit(request, reply_to);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_has_its_time_for_a_release_from_when_that_is_written() {
    const WAIT: Duration = Duration::from_millis(40);
    let engine = engine_of((0..5).map(|_| Backlog(MemoryNode::new(), WAIT)).collect()).await;
    assert!((WAIT..2 * WAIT).contains(&engine.node_timeout(TTL)));
    assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
}
