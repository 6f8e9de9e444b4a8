use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Engine, NodeReply, Round};
use crate::cluster::{Cluster, NodeSet};
use crate::error::{NodeError, NodeVote, Refusal, Vote};
use crate::node::{LockKeys, Operation, QueuePosition, Reply};
use crate::quorum::{ReleaseVote, Tally, Verdict, drift};
use crate::random::OwnerId;

/// The pause before a node that replied with an error is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Whether the lock was still held when it was released.
pub(super) type WasHeld = bool;

/// Too few nodes acknowledged a release in time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    pub(crate) waited: Duration,
    /// The votes of the nodes that did not acknowledge it.
    pub(crate) votes: Vec<NodeVote>,
}

/// What the nodes hold, or may hold, for one owner id.
pub(super) struct Footprint {
    pub(super) keys: LockKeys,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    /// The nodes that may hold the key.
    pub(super) nodes: NodeSet,
    /// What becomes of the queue positions on these nodes when it is released.
    pub(super) position: QueuePosition,
}

/// A release that was sent.
///
/// Dropped before every node has replied, it continues in the background, tracked: a node that cannot be reached is asked again
/// until the key has expired on its own.
pub(crate) struct Release {
    engine: Arc<Engine>,
    keys: LockKeys,
    owner: OwnerId,
    /// Whether the lock was ever granted. If too few nodes reply to the release of a failed attempt, that is no news.
    was_granted: bool,
    began: Instant,
    /// When the key has expired on its own.
    expires: Instant,
    /// `None` once it was moved to the background, or every node has replied there.
    round: Option<Round>,
    /// The nodes that have not replied.
    silent: NodeSet,
    tally: Tally<ReleaseVote>,
    verdict: Option<Verdict>,
    failed: Vec<(usize, NodeError)>,
    in_background: bool,
    /// A shutdown waits for it.
    tracked: Option<TaskTrackerToken>,
}

impl Release {
    /// Sends the release to the nodes that may hold the key.
    pub(super) fn send(engine: &Arc<Engine>, footprint: &Footprint, was_granted: bool) -> Self {
        let &Footprint { ref keys, owner, ttl, nodes, position } = footprint;
        let (cluster, began, timeout) = (&engine.cluster, Instant::now(), engine.node_timeout(ttl));
        // To every node, by whichever roster it votes: a key that may be there would otherwise stay for its time to live.
        let mut round = Round::until(cluster, keys, began + timeout).time_from_write(timeout).by_any_roster();
        let operation = Operation::Release { owner, position };
        let mut tally = Tally::new(cluster.size());
        // If a majority cannot have the key, there is nothing to wait for.
        let mut verdict = None;
        for node in 0..cluster.size() {
            if nodes.contains(node) {
                round.send(node, operation);
            } else {
                // Known without a request: the key was never sent there, or its refusal has arrived.
                verdict = verdict.or(tally.vote(node, ReleaseVote::NotOwner));
            }
        }
        round.await_majority_but(cluster.size() - nodes.len());
        Self {
            engine: Arc::clone(engine),
            keys: keys.clone(),
            owner,
            was_granted,
            began,
            // From now on, not from the grant: a renewal that is still under way may prolong the key until then.
            expires: began + ttl + drift(ttl),
            round: Some(round),
            silent: nodes,
            tally,
            verdict,
            failed: Vec::new(),
            in_background: false,
            tracked: Some(engine.background.tracker.token()),
        }
    }

    /// Waits for the verdict: whether the lock was still held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only gives up the verdict; the release continues in the background.
    pub(crate) async fn verdict(mut self) -> Result<WasHeld, Unacknowledged> {
        if Handle::try_current().is_ok() {
            return self.outcome().await;
        }
        // The caller has no runtime, and so no timers: wait on the manager's.
        let (sender, receiver) = oneshot::channel();
        // Moved and not borrowed: the caller may drop this future, and the release must go on.
        let (engine, mut release) = (Arc::clone(&self.engine), self.take());
        engine.spawn(async move {
            _ = sender.send(release.outcome().await);
            release.finish().await;
        });
        receiver.await.unwrap_or_else(|_| Err(Unacknowledged::default()))
    }

    async fn outcome(&mut self) -> Result<WasHeld, Unacknowledged> {
        match self.decide().await {
            Verdict::Held => Ok(true),
            Verdict::Lost => Ok(false),
            Verdict::Unknown => {
                let members = &self.engine.cluster.members;
                let vote = |node: usize, vote| NodeVote { node: members[node].node.name().to_owned(), vote };
                let failed = self.failed.iter().map(|(node, error)| vote(*node, Vote::Failed(error.clone())));
                let votes = failed.chain(self.silent.iter().map(|node| vote(node, Vote::Pending))).collect();
                Err(Unacknowledged { waited: self.began.elapsed(), votes })
            }
        }
    }

    /// Counts replies until they decide, or their time is over.
    async fn decide(&mut self) -> Verdict {
        loop {
            if let Some(verdict) = self.verdict {
                return verdict;
            }
            let reply = match &mut self.round {
                Some(round) => round.next_in_time().await,
                None => None,
            };
            match reply {
                Some(reply) => self.count(reply),
                None => self.set_verdict(Verdict::Unknown),
            }
        }
    }

    fn count(&mut self, NodeReply { node, reply }: NodeReply) {
        self.silent.remove(node);
        let vote = match reply {
            Ok(Reply::Released) => ReleaseVote::Released,
            Ok(_) => ReleaseVote::NotOwner,
            // Its server was asked over another address.
            Err(NodeError::Refused(Refusal::Duplicate { .. })) => ReleaseVote::NoReply,
            Err(error) => {
                self.failed.push((node, error));
                ReleaseVote::NoReply
            }
        };
        if let Some(verdict) = self.tally.vote(node, vote) {
            self.set_verdict(verdict);
        }
    }

    fn set_verdict(&mut self, verdict: Verdict) {
        if self.verdict.is_none() && verdict == Verdict::Unknown && self.was_granted {
            let key = self.engine.cluster.reporter.shown(self.keys.lock_key());
            log_event!(warn: "lock.release_failed", key, "no majority acknowledged a release within the node timeout");
        }
        self.verdict.get_or_insert(verdict);
    }

    /// Completes the release, unless the manager ends before.
    async fn finish(mut self) {
        let finished = self.engine.background.finished.clone();
        tokio::select! {
            biased;
            () = self.complete() => {}
            () = finished.cancelled() => self.set_verdict(Verdict::Unknown),
        }
    }

    /// Asks every node again until it has replied or the key has expired.
    async fn complete(&mut self) {
        self.decide().await;
        let Some(mut round) = self.round.take() else { return };
        // Usually all reply in time, and this is the end of it.
        round.await_all();
        while let Some(reply) = round.next_in_time().await {
            self.count(reply);
        }
        // After the node timeout nobody waits for it any more, but a reply that comes now still saves a request.
        round.extend_until(self.expires);
        // Without the queue position: by now it may belong to a caller that came later.
        let operation = Operation::Release { owner: self.owner, position: QueuePosition::None };
        let mut retries = FuturesUnordered::new();
        loop {
            for (node, error) in self.failed.drain(..) {
                retries.push(when_reachable(&self.engine.cluster, self.keys.lock_key(), node, error, self.expires));
            }
            if retries.is_empty() && round.is_done() {
                return;
            }
            tokio::select! {
                biased;
                Some(node) = retries.next() => {
                    if let Some(node) = node {
                        round.send_again(node, operation);
                    }
                }
                reply = round.next(), if !round.is_done() => {
                    if let Some(NodeReply { node, reply: Err(error) }) = reply {
                        self.failed.push((node, error));
                    }
                }
            }
        }
    }

    /// Moves what is left of the release out, for the background: the round, the errors and the tracking token. `self` keeps
    /// copies of the rest, and has nothing more to do.
    fn take(&mut self) -> Self {
        let mut round = self.round.take();
        if let Some(round) = &mut round {
            round.detach();
        }
        Self {
            engine: Arc::clone(&self.engine),
            keys: self.keys.clone(),
            round,
            tally: self.tally.clone(),
            failed: std::mem::take(&mut self.failed),
            in_background: true,
            tracked: self.tracked.take(),
            ..*self
        }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // A background task that is dropped, because its runtime was shut down, must not spawn itself again.
        if self.in_background {
            return;
        }
        while let Some(reply) = self.round.as_ref().and_then(Round::take) {
            self.count(reply);
        }
        let complete = self.round.as_ref().is_none_or(Round::is_done) && self.failed.is_empty();
        if !complete {
            let engine = Arc::clone(&self.engine);
            engine.spawn(self.take().finish());
        }
    }
}

/// Waits until a node that did not acknowledge a release can be asked again; `None` if its key has expired meanwhile.
async fn when_reachable(
    cluster: &Arc<Cluster>,
    key: &str,
    node: usize,
    error: NodeError,
    expires: Instant,
) -> Option<usize> {
    let again = async {
        sleep(RETRY_PAUSE).await;
        cluster.wait_until_reachable(node).await;
    };
    tokio::select! {
        biased;
        () = again => Some(node),
        () = sleep_until(expires) => {
            let (name, key) = (cluster.members[node].node.name(), cluster.reporter.shown(key));
            log_event!(debug: "lock.release_given_up", node = name, key, %error,
                "could not deliver a release; the key was left to expire");
            None
        }
    }
}

#[cfg(test)]
mod tests;
