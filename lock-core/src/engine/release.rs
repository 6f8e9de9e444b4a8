use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Engine, NodeSet};
use crate::node::{LockKeys, NodeError, NodeFuture, Reply, Request};
use crate::quorum::{Release, ReleaseVerdict, ReleaseVote, drift};
use crate::random::OwnerId;

/// The verdict on a release, when it falls. The release goes on without it.
pub(crate) type Releasing = oneshot::Receiver<ReleaseVerdict>;

/// The pause before a node that answered with an error is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// What is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A lock that was held.
    Lease,
    /// An attempt that came to nothing. That too few nodes answer is what it failed for, and no news.
    Attempt,
}

impl Engine {
    /// Deletes a lock's key on the nodes that may hold it. When this returns, the requests are cast; the rest goes on in the
    /// background, tracked: a node that can not be reached is tried again until the key has expired by itself.
    pub(crate) fn release(
        self: &Arc<Self>,
        keys: &LockKeys,
        owner: OwnerId,
        ttl: Duration,
        touched: NodeSet,
        ended: Ended,
    ) -> Releasing {
        let (verdict, releasing) = oneshot::channel();
        let request = Request::Release { owner };
        let mut votes = Release::new(self.cluster.size());
        let mut cast = Vec::with_capacity(self.cluster.size());
        // The nodes that can not have the key may be so many that there is nothing to wait for.
        let mut known = None;
        for node in 0..self.cluster.size() {
            if touched.contains(node) {
                cast.push((node, self.cluster.cast(node, keys, request)));
            } else {
                known = votes.vote(ReleaseVote::NotOwner);
            }
        }
        let expires = Instant::now() + ttl + drift(ttl);
        let settling = Settling { engine: Arc::clone(self), keys: keys.clone(), request, expires, ended };
        self.spawn(settling.run(cast, (votes, known), verdict, self.node_timeout(ttl)));
        releasing
    }
}

struct Settling {
    engine: Arc<Engine>,
    keys: LockKeys,
    request: Request,
    /// When the key has ended on its own.
    expires: Instant,
    ended: Ended,
}

impl Settling {
    async fn run(
        self,
        cast: Vec<(usize, NodeFuture<Result<Reply, NodeError>>)>,
        (mut votes, known): (Release, Option<ReleaseVerdict>),
        verdict: oneshot::Sender<ReleaseVerdict>,
        node_timeout: Duration,
    ) {
        let mut verdict = Some(verdict);
        let mut tell = |told: ReleaseVerdict, resource: &str| {
            if let Some(verdict) = verdict.take() {
                if told == ReleaseVerdict::Unknown && self.ended == Ended::Lease {
                    tracing::warn!(name: "lock.release_failed", key = resource, "no majority acknowledged a release");
                }
                _ = verdict.send(told);
            }
        };
        let mut deliveries: FuturesUnordered<_> =
            cast.into_iter().map(|(node, answer)| self.deliver(node, answer)).collect();
        let impatient = sleep(node_timeout);
        let (mut impatient, mut told) = (std::pin::pin!(impatient), known.is_some());
        if let Some(known) = known {
            tell(known, self.keys.lock());
        }
        loop {
            tokio::select! {
                biased;
                delivered = deliveries.next() => {
                    let Some(vote) = delivered else { return };
                    if let Some(verdict) = votes.vote(vote) {
                        told = true;
                        tell(verdict, self.keys.lock());
                    }
                }
                () = &mut impatient, if !told => {
                    told = true;
                    tell(ReleaseVerdict::Unknown, self.keys.lock());
                }
                () = self.engine.finished.cancelled() => return tell(ReleaseVerdict::Unknown, self.keys.lock()),
            }
        }
    }

    /// Sees a node's release through: until it is answered, or the key has ended.
    async fn deliver(&self, node: usize, mut answer: NodeFuture<Result<Reply, NodeError>>) -> ReleaseVote {
        let cluster = &self.engine.cluster;
        loop {
            let error = tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(Reply::Released) => return ReleaseVote::Released,
                    Ok(_) => return ReleaseVote::NotOwner,
                    Err(error) => error,
                },
                () = sleep_until(self.expires) => NodeError::TimedOut,
            };
            cluster.note(node, &error);
            let again = async {
                sleep(RETRY).await;
                cluster.reachable(node).await;
            };
            tokio::select! {
                biased;
                () = again => answer = cluster.cast(node, &self.keys, self.request),
                () = sleep_until(self.expires) => {
                    let name = cluster.members[node].node.name();
                    tracing::debug!(name: "lock.release_given_up", node = name, key = self.keys.lock(), %error,
                        "the key was left to expire");
                    return ReleaseVote::NoAnswer;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Keyspace, LockNode, MemoryNode, SetConfig};
    use crate::random::Random;
    use crate::resource::Resource;

    #[tokio::test(start_paused = true)]
    async fn nodes_that_can_not_have_the_key_decide_while_the_others_hang() {
        let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
        let config = SetConfig { format: 1, nodes: 5, max_ttl: Duration::from_secs(60), name: String::new() };
        let masters = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>).collect();
        let engine = Arc::new(Engine::new(masters, Keyspace::new(""), config, None, Random::from_seed(1)));
        engine.start();
        engine.cluster.all_joined().await;

        // As after an attempt that three nodes answered with HELD, and two not at all.
        let mut touched = NodeSet::default();
        for (node, hung) in nodes[..2].iter().enumerate() {
            hung.set_delay(Duration::from_secs(3600));
            touched.insert(node);
        }
        let keys = engine.cluster.keyspace.keys(&Resource::parse("r").unwrap());
        let started = Instant::now();
        let ttl = Duration::from_secs(10);
        let verdict = engine.release(&keys, engine.random.owner(), ttl, touched, Ended::Attempt).await.unwrap();
        assert_eq!((verdict, started.elapsed()), (ReleaseVerdict::NotOurs, Duration::ZERO));
    }
}
