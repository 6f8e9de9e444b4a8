use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Engine, Round, Traces};
use crate::node::{LockKeys, NodeError, NodeFuture, Place, Reply, Request};
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
    pub(crate) fn release(self: &Arc<Self>, traces: Traces, ended: Ended) -> Releasing {
        let Traces { keys, owner, ttl, nodes, place } = traces;
        let (verdict, releasing) = oneshot::channel();
        let request = Request::Release { owner, place };
        let mut votes = Release::new(self.cluster.size());
        let mut answers = Round::new(&self.cluster, Instant::now() + self.node_timeout(ttl));
        // The nodes that can not have the key may be so many that there is nothing to wait for.
        let mut known = None;
        for node in 0..self.cluster.size() {
            if nodes.contains(node) {
                answers.add(node, self.cluster.cast(node, &keys, request));
            } else {
                known = votes.vote(ReleaseVote::NotOwner);
            }
        }
        let telling = Telling { verdict: Some(verdict), votes, keys, ended };
        let expires = Instant::now() + ttl + drift(ttl);
        self.spawn(settle(Arc::clone(self), answers, telling, known, owner, expires));
        releasing
    }
}

/// Waits for the answers to a release, tells what they come to, and sees through what was not answered.
async fn settle(
    engine: Arc<Engine>,
    mut answers: Round,
    mut telling: Telling,
    known: Option<ReleaseVerdict>,
    owner: OwnerId,
    expires: Instant,
) {
    telling.tell(known);
    let mut failed = Vec::new();
    loop {
        let answer = tokio::select! {
            biased;
            answer = answers.next_in_time() => answer,
            () = engine.finished.cancelled() => return telling.tell(Some(ReleaseVerdict::Unknown)),
        };
        match answer {
            Some((_, Ok(reply))) => telling.vote(release_vote(reply)),
            Some((node, Err(error))) => {
                telling.vote(ReleaseVote::NoAnswer);
                failed.push((node, error));
            }
            None => break,
        }
    }
    let answers: Vec<_> = answers.into_open().collect();
    if answers.is_empty() && failed.is_empty() {
        return;
    }
    telling.tell(Some(ReleaseVerdict::Unknown));
    let delivery = Delivery { engine: &engine, keys: telling.keys.clone(), owner, expires };
    let mut deliveries: FuturesUnordered<_> = FuturesUnordered::new();
    for (node, answer) in answers {
        deliveries.push(delivery.deliver(node, answer));
    }
    for (node, error) in failed {
        deliveries.push(delivery.deliver(node, Box::pin(std::future::ready(Err(error)))));
    }
    loop {
        tokio::select! {
            biased;
            delivered = deliveries.next() => if delivered.is_none() { return },
            () = engine.finished.cancelled() => return,
        }
    }
}

fn release_vote(reply: Reply) -> ReleaseVote {
    if reply == Reply::Released { ReleaseVote::Released } else { ReleaseVote::NotOwner }
}

/// The verdict on a release, which is told once.
struct Telling {
    verdict: Option<oneshot::Sender<ReleaseVerdict>>,
    votes: Release,
    keys: LockKeys,
    ended: Ended,
}

impl Telling {
    fn vote(&mut self, vote: ReleaseVote) {
        let verdict = self.votes.vote(vote);
        self.tell(verdict);
    }

    fn tell(&mut self, told: Option<ReleaseVerdict>) {
        let Some(told) = told else { return };
        let Some(verdict) = self.verdict.take() else { return };
        if told == ReleaseVerdict::Unknown && self.ended == Ended::Lease {
            let key = self.keys.lock();
            tracing::warn!(name: "lock.release_failed", key, "no majority acknowledged a release");
        }
        _ = verdict.send(told);
    }
}

/// A release that some node did not answer in time.
struct Delivery<'a> {
    engine: &'a Engine,
    keys: LockKeys,
    owner: OwnerId,
    /// When the key has ended on its own.
    expires: Instant,
}

impl Delivery<'_> {
    /// Sees a node's release through: until it is answered, or the key has ended.
    async fn deliver(&self, node: usize, mut answer: NodeFuture<Result<Reply, NodeError>>) {
        let cluster = &self.engine.cluster;
        // Without the place: by now it may be another one, of one who came later.
        let request = Request::Release { owner: self.owner, place: Place::None };
        loop {
            let error = tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(_) => return,
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
                () = again => answer = cluster.cast(node, &self.keys, request),
                () = sleep_until(self.expires) => {
                    let name = cluster.members[node].node.name();
                    tracing::debug!(name: "lock.release_given_up", node = name, key = self.keys.lock(), %error,
                        "the key was left to expire");
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NodeSet;
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
        let owner = engine.random.owner();
        let traces = Traces { keys, owner, ttl, nodes: touched, place: Place::None };
        let verdict = engine.release(traces, Ended::Attempt).await.unwrap();
        assert_eq!((verdict, started.elapsed()), (ReleaseVerdict::NotOurs, Duration::ZERO));
    }
}
