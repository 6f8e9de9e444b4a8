use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Cluster, Engine, Round, Traces};
use crate::node::{LockKeys, NodeError, Place, Reply, Request};
use crate::quorum::{Release, ReleaseVerdict, ReleaseVote, drift};
use crate::random::OwnerId;

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
    /// Deletes a lock's key on the nodes that may hold it. When this returns, the requests are cast; the rest is for whoever awaits the
    /// verdict, and then goes on in the background, tracked: a node that can not be reached is tried again until the key has expired by
    /// itself.
    pub(crate) fn release(self: &Arc<Self>, traces: Traces, ended: Ended) -> Releasing {
        let Traces { keys, owner, ttl, nodes, place } = traces;
        let request = Request::Release { owner, place };
        let mut votes = Release::new(self.cluster.size());
        let answers = Round::new(&self.cluster, &keys, Instant::now() + self.node_timeout(ttl));
        // The nodes that can not have the key may be so many that there is nothing to wait for.
        let mut verdict = None;
        for node in 0..self.cluster.size() {
            if nodes.contains(node) {
                answers.cast(node, request);
            } else {
                verdict = votes.vote(ReleaseVote::NotOwner);
            }
        }
        answers.await_majority_but(self.cluster.size() - nodes.len());
        let (tracked, expires) = (self.tracker.token(), Instant::now() + ttl + drift(ttl));
        let engine = Arc::clone(self);
        let settling = Settling {
            engine,
            keys,
            owner,
            ended,
            expires,
            answers,
            votes,
            verdict,
            failed: Vec::new(),
            _tracked: tracked,
        };
        Releasing(Some(settling))
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
    pub(crate) async fn verdict(mut self) -> ReleaseVerdict {
        if Handle::try_current().is_err()
            && let Some(settling) = self.0.take()
        {
            return settling.verdict_from_elsewhere().await;
        }
        match &mut self.0 {
            Some(settling) => settling.verdict().await,
            // It is there until this is dropped.
            None => ReleaseVerdict::Unknown,
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let Some(mut settling) = self.0.take() else { return };
        while let Some((node, answer)) = settling.answers.take() {
            settling.answered(node, answer);
        }
        // As always where nodes answer at once.
        if settling.answers.is_over() && settling.failed.is_empty() {
            return;
        }
        settling.answers.move_on();
        let engine = Arc::clone(&settling.engine);
        engine.spawn(settling.finish());
    }
}

/// What a release came to so far.
struct Settling {
    engine: Arc<Engine>,
    keys: LockKeys,
    owner: OwnerId,
    ended: Ended,
    /// When the key has ended by itself.
    expires: Instant,
    answers: Round,
    votes: Release,
    verdict: Option<ReleaseVerdict>,
    failed: Vec<(usize, NodeError)>,
    /// A shutdown waits for it.
    _tracked: TaskTrackerToken,
}

impl Settling {
    /// Takes answers in until the verdict falls.
    async fn verdict(&mut self) -> ReleaseVerdict {
        loop {
            if let Some(verdict) = self.verdict {
                return verdict;
            }
            tokio::select! {
                biased;
                answer = self.answers.next_in_time() => match answer {
                    Some((node, answer)) => self.answered(node, answer),
                    None => self.decide(ReleaseVerdict::Unknown),
                },
                () = self.engine.finished.cancelled() => self.decide(ReleaseVerdict::Unknown),
            }
        }
    }

    /// The verdict where no runtime is: the timers are on the manager's.
    async fn verdict_from_elsewhere(mut self) -> ReleaseVerdict {
        let (tell, told) = oneshot::channel();
        let engine = Arc::clone(&self.engine);
        engine.spawn(async move {
            _ = tell.send(self.verdict().await);
            self.finish().await;
        });
        told.await.unwrap_or(ReleaseVerdict::Unknown)
    }

    fn answered(&mut self, node: usize, answer: Result<Reply, NodeError>) {
        let vote = match answer {
            Ok(Reply::Released) => ReleaseVote::Released,
            Ok(_) => ReleaseVote::NotOwner,
            Err(error) => {
                self.failed.push((node, error));
                ReleaseVote::NoAnswer
            }
        };
        if let Some(verdict) = self.votes.vote(vote) {
            self.decide(verdict);
        }
    }

    fn decide(&mut self, verdict: ReleaseVerdict) {
        if self.verdict.is_none() && verdict == ReleaseVerdict::Unknown && self.ended == Ended::Lease {
            let key = self.keys.lock();
            tracing::warn!(name: "lock.release_failed", key, "no majority acknowledged a release");
        }
        self.verdict.get_or_insert(verdict);
    }

    /// Sees the release through on every node: until it has answered, or the key has ended.
    async fn finish(mut self) {
        self.verdict().await;
        // Most times all answer in time, and that was it.
        self.answers.await_all();
        loop {
            tokio::select! {
                biased;
                answer = self.answers.next_in_time() => match answer {
                    Some((node, answer)) => self.answered(node, answer),
                    None => break,
                },
                () = self.engine.finished.cancelled() => return,
            }
        }
        self.answers.extend(self.expires);
        // Without the place: by now it may be another one, of one who came later.
        let request = Request::Release { owner: self.owner, place: Place::None };
        let mut again = FuturesUnordered::new();
        loop {
            for (node, error) in self.failed.drain(..) {
                again.push(when_reachable(&self.engine.cluster, self.keys.lock(), node, error, self.expires));
            }
            if again.is_empty() && self.answers.is_over() {
                return;
            }
            tokio::select! {
                biased;
                () = self.engine.finished.cancelled() => return,
                Some(node) = again.next() => {
                    if let Some(node) = node {
                        self.answers.cast(node, request);
                    }
                }
                answer = self.answers.next(), if !self.answers.is_over() => {
                    if let Some((node, Err(error))) = answer {
                        self.failed.push((node, error));
                    }
                }
            }
        }
    }
}

/// Waits until a node that did not acknowledge a release can be asked again; none when its key has ended meanwhile.
async fn when_reachable(
    cluster: &Arc<Cluster>,
    key: &str,
    node: usize,
    error: NodeError,
    expires: Instant,
) -> Option<usize> {
    let again = async {
        sleep(RETRY).await;
        cluster.reachable(node).await;
    };
    tokio::select! {
        biased;
        () = again => Some(node),
        () = sleep_until(expires) => {
            let name = cluster.members[node].node.name();
            tracing::debug!(name: "lock.release_given_up", node = name, key, %error, "the key was left to expire");
            None
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
        engine.release(Traces { keys, owner, ttl: TTL, nodes, place: Place::None }, Ended::Attempt)
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
        assert_eq!((verdict, started.elapsed()), (ReleaseVerdict::NotOurs, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_leaves_work_behind_only_where_a_node_has_not_answered() {
        let (nodes, engine) = engine().await;
        drop(release(&engine, NodeSet::all(5)));
        assert_eq!(engine.tracker.len(), 0);

        nodes[4].set_delay(Duration::from_secs(1));
        assert_eq!(release(&engine, NodeSet::all(5)).verdict().await, ReleaseVerdict::NotOurs);
        assert_ne!(engine.tracker.len(), 0);
        engine.tracker.close();
        let began = Instant::now();
        engine.tracker.wait().await;
        assert_eq!(began.elapsed(), Duration::from_secs(1), "until it has");
    }
}
