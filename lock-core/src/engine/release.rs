use std::sync::Arc;

use tokio::runtime::Handle;

use super::settling::{Settling, Unacknowledged, WasOurs};
use super::{Engine, Traces};

/// What is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A lock that was held.
    Lease,
    /// An attempt that came to nothing. That too few nodes answer is what it failed for, and no news.
    Attempt,
}

impl Engine {
    /// Deletes a lock's key on the nodes that may hold it. When this returns, the requests are cast; the rest is for whoever awaits the
    /// verdict, and then goes on in the background, tracked: a node that can not be reached is tried again until the key has expired by
    /// itself.
    pub(crate) fn release(self: &Arc<Self>, traces: Traces, ended: Ended) -> Releasing {
        Releasing(Some(Settling::begin(self, traces, ended)))
    }
}

/// A release that is under way. Dropped, it goes on in the background.
pub(crate) struct Releasing(Option<Settling>);

impl Releasing {
    /// The verdict on the release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only gives up the verdict.
    pub(crate) async fn verdict(mut self) -> Result<WasOurs, Unacknowledged> {
        if Handle::try_current().is_err()
            && let Some(settling) = self.0.take()
        {
            return settling.outcome_from_elsewhere().await;
        }
        match &mut self.0 {
            Some(settling) => settling.outcome().await,
            // It is there until this is dropped.
            None => Err(Unacknowledged::default()),
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(settling) = self.0.take() {
            settling.go_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::engine::NodeSet;
    use crate::node::{Keyspace, LockNode, MemoryNode, Place, SetConfig};
    use crate::random::Random;
    use crate::resource::Resource;

    const TTL: Duration = Duration::from_secs(10);

    async fn engine() -> (Vec<MemoryNode>, Arc<Engine>) {
        let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
        let config = SetConfig { format: 1, nodes: 5, max_ttl: Duration::from_secs(60), name: String::new() };
        let masters = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>).collect();
        let engine = Arc::new(Engine::new(masters, Keyspace::new(""), config, None, Random::from_seed(1)));
        engine.start();
        engine.cluster.all_joined().await;
        (nodes, engine)
    }

    /// Releases what may be on these nodes.
    fn release(engine: &Arc<Engine>, nodes: NodeSet) -> Releasing {
        let (keys, owner) = (engine.cluster.keyspace.keys(&Resource::parse("r").unwrap()), engine.random.owner());
        let queued = NodeSet::default();
        engine.release(Traces { keys, owner, ttl: TTL, nodes, queued, place: Place::None }, Ended::Attempt)
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_can_not_have_the_key_decide_while_the_others_hang() {
        let (nodes, engine) = engine().await;
        // As after an attempt that three nodes answered with HELD, and two not at all.
        let mut touched = NodeSet::default();
        for (node, hung) in nodes[..2].iter().enumerate() {
            hung.set_delay(Duration::from_secs(3600));
            touched.insert(node);
        }
        let started = Instant::now();
        let verdict = release(&engine, touched).verdict().await;
        assert_eq!((verdict, started.elapsed()), (Ok(false), Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_leaves_work_behind_only_where_a_node_has_not_answered() {
        let (nodes, engine) = engine().await;
        drop(release(&engine, NodeSet::all(5)));
        assert_eq!(engine.tracker.len(), 0);

        nodes[4].set_delay(Duration::from_secs(1));
        assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, Ok(false));
        assert_ne!(engine.tracker.len(), 0);
        engine.tracker.close();
        let began = Instant::now();
        engine.tracker.wait().await;
        assert_eq!(began.elapsed(), Duration::from_secs(1), "until it has");
    }
}
