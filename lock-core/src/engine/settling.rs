use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Cluster, Ended, Engine, NodeSet, Round, Traces};
use crate::error::{NodeVote, VoteAnswer};
use crate::node::{LockKeys, NodeError, Place, Reply, Request};
use crate::quorum::{Release, ReleaseVerdict, ReleaseVote, drift};
use crate::random::OwnerId;

/// The pause before a node that answered with an error is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Whether the lock was ours to the end.
pub(super) type WasOurs = bool;

/// Too few nodes acknowledged a release in time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    pub(crate) waited: Duration,
    /// Of the nodes that did not.
    pub(crate) votes: Vec<NodeVote>,
}

/// A release that was cast, and what it came to so far.
pub(super) struct Settling {
    engine: Arc<Engine>,
    keys: LockKeys,
    owner: OwnerId,
    ended: Ended,
    began: Instant,
    /// When the key has ended by itself.
    expires: Instant,
    answers: Round,
    /// The nodes that may have had the key. Others give up a place, and count for nothing.
    nodes: NodeSet,
    /// Those of them that have not answered.
    silent: NodeSet,
    votes: Release,
    verdict: Option<ReleaseVerdict>,
    failed: Vec<(usize, NodeError)>,
    /// A shutdown waits for it.
    _tracked: TaskTrackerToken,
}

impl Settling {
    /// Casts the release.
    pub(super) fn begin(engine: &Arc<Engine>, traces: Traces, ended: Ended) -> Self {
        let Traces { keys, owner, ttl, nodes, queued, place } = traces;
        let request = Request::Release { owner, place };
        let mut votes = Release::new(engine.cluster.size());
        let began = Instant::now();
        let answers = Round::new(&engine.cluster, &keys, began + engine.node_timeout(ttl));
        // The nodes that can not have the key may be so many that there is nothing to wait for.
        let mut verdict = None;
        for node in 0..engine.cluster.size() {
            if nodes.union(queued).contains(node) {
                answers.cast(node, request);
            }
            if !nodes.contains(node) {
                verdict = votes.vote(ReleaseVote::NotOwner);
            }
        }
        answers.await_majority_but(engine.cluster.size() - nodes.len());
        let (tracked, expires) = (engine.tracker.token(), began + ttl + drift(ttl));
        let engine = Arc::clone(engine);
        Self {
            engine,
            keys,
            owner,
            ended,
            began,
            expires,
            answers,
            nodes,
            silent: nodes,
            votes,
            verdict,
            failed: Vec::new(),
            _tracked: tracked,
        }
    }

    /// Goes on in the background, if there is anything left to do.
    pub(super) fn go_on(mut self) {
        while let Some((node, answer)) = self.answers.take() {
            self.answered(node, answer);
        }
        // As always where nodes answer at once.
        if self.answers.is_over() && self.failed.is_empty() {
            return;
        }
        self.answers.move_on();
        let engine = Arc::clone(&self.engine);
        engine.spawn(self.finish());
    }

    /// Takes answers in until the verdict falls.
    async fn verdict(&mut self) -> ReleaseVerdict {
        loop {
            if let Some(verdict) = self.verdict {
                return verdict;
            }
            match self.answers.next_in_time().await {
                Some((node, answer)) => self.answered(node, answer),
                None => self.decide(ReleaseVerdict::Unknown),
            }
        }
    }

    /// The verdict, and who is missing if there is none.
    pub(super) async fn outcome(&mut self) -> Result<WasOurs, Unacknowledged> {
        match self.verdict().await {
            ReleaseVerdict::StillOurs => Ok(true),
            ReleaseVerdict::NotOurs => Ok(false),
            ReleaseVerdict::Unknown => {
                let members = &self.engine.cluster.members;
                let vote = |node: usize, answer| NodeVote { node: members[node].node.name().to_owned(), answer };
                let failed = self.failed.iter().map(|(node, error)| vote(*node, VoteAnswer::Failed(error.clone())));
                let silent = (0..members.len()).filter(|node| self.silent.contains(*node));
                let votes = failed.chain(silent.map(|node| vote(node, VoteAnswer::Pending))).collect();
                Err(Unacknowledged { waited: self.began.elapsed(), votes })
            }
        }
    }

    /// The same where no runtime is: the timers are on the manager's.
    pub(super) async fn outcome_from_elsewhere(mut self) -> Result<WasOurs, Unacknowledged> {
        let (tell, told) = oneshot::channel();
        let engine = Arc::clone(&self.engine);
        engine.spawn(async move {
            _ = tell.send(self.outcome().await);
            self.finish().await;
        });
        told.await.unwrap_or_else(|_| Err(Unacknowledged::default()))
    }

    fn answered(&mut self, node: usize, answer: Result<Reply, NodeError>) {
        if !self.nodes.contains(node) {
            return;
        }
        self.silent.remove(node);
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

    /// Sees the release through, unless the manager is at its end before.
    async fn finish(mut self) {
        let finished = self.engine.finished.clone();
        tokio::select! {
            biased;
            () = self.see_through() => {}
            () = finished.cancelled() => self.decide(ReleaseVerdict::Unknown),
        }
    }

    /// Releases on every node: until it has answered, or the key has ended.
    async fn see_through(&mut self) {
        self.verdict().await;
        // Most times all answer in time, and that was it.
        self.answers.await_all();
        while let Some((node, answer)) = self.answers.next_in_time().await {
            self.answered(node, answer);
        }
        self.answers.wait_until(self.expires);
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
                Some(node) = again.next() => {
                    if let Some(node) = node {
                        self.answers.cast(node, request);
                    }
                }
                answer = self.answers.next(), if !self.answers.is_over() => {
                    if let Some((node, Err(error))) = answer && self.nodes.contains(node) {
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
