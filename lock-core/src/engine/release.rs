use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use self::again::Interrupted;
use self::unawaited::Unawaited;
pub(crate) use self::unawaited::UnawaitedReleases;
use super::{Engine, NodeReply, Round};
use crate::cluster::NodeSet;
use crate::error::{NodeError, NodeVote, Refusal, Vote};
use crate::node::{LockKeys, Operation, QueuePosition, Reply};
use crate::quorum::{KeyVote, Tally, Verdict, drift};
use crate::random::OwnerId;

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

/// A release that was sent, while somebody may wait for its verdict. Empty once it goes on without this.
///
/// Dropped before every node has replied, it continues in the background, tracked: a node that cannot be reached is asked again
/// until the key has expired on its own, whichever runtime is shut down meanwhile.
pub(crate) struct Release(Option<SentRelease>);

/// The same, wherever it is. If it is dropped in the background before every node has acknowledged it, its runtime was shut down.
struct SentRelease {
    engine: Arc<Engine>,
    keys: LockKeys,
    owner: OwnerId,
    /// Whether the lock was ever granted. If too few nodes reply to the release of a failed attempt, that is no news.
    was_granted: bool,
    began: Instant,
    /// When the key has expired on its own.
    expires: Instant,
    round: Round,
    /// The nodes that may hold the key still: they have not replied, or not acknowledged it.
    unacknowledged: NodeSet,
    tally: Tally,
    verdict: Option<Verdict>,
    failed: Vec<(usize, NodeError)>,
    /// A shutdown waits for it.
    tracked: Option<TaskTrackerToken>,
}

impl Release {
    /// Sends the release to the nodes that may hold the key.
    pub(super) fn send(
        engine: &Arc<Engine>,
        footprint: &Footprint,
        was_granted: bool,
        tracked: Option<TaskTrackerToken>,
    ) -> Self {
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
                verdict = verdict.or(tally.vote(node, KeyVote::Gone));
            }
        }
        round.await_majority_but(cluster.size() - nodes.len());
        Self(Some(SentRelease {
            engine: Arc::clone(engine),
            keys: keys.clone(),
            owner,
            was_granted,
            began,
            // From now on, not from the grant: a renewal that is still under way may prolong the key until then.
            expires: began + ttl + drift(ttl),
            round,
            unacknowledged: nodes,
            tally,
            verdict,
            failed: Vec::new(),
            tracked,
        }))
    }

    /// Waits for the verdict: whether the lock was still held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only gives up the verdict, and then the release only the wait for it: it continues in the background.
    pub(crate) async fn verdict(&mut self) -> Result<WasHeld, Unacknowledged> {
        if let Some(sent) = &mut self.0
            && Handle::try_current().is_ok()
        {
            return sent.outcome().await;
        }
        // The caller has no runtime, and so no timers: wait on the manager's. Moved there and not borrowed: the caller may drop this
        // future, and the release must go on.
        let Some(mut sent) = self.0.take() else { return Err(Unacknowledged::default()) };
        let (sender, receiver) = oneshot::channel();
        sent.round.detach();
        let engine = Arc::clone(&sent.engine);
        engine.spawn(async move {
            _ = sender.send(sent.outcome().await);
            sent.finish().await;
        });
        receiver.await.unwrap_or_else(|_| Err(Unacknowledged::default()))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(mut sent) = self.0.take() {
            sent.count_received();
            if !sent.is_complete() {
                sent.go_on_unawaited();
            }
        }
    }
}

impl SentRelease {
    async fn outcome(&mut self) -> Result<WasHeld, Unacknowledged> {
        match self.decide().await {
            Verdict::Held => Ok(true),
            Verdict::Lost => Ok(false),
            Verdict::Unknown => {
                let cluster = &self.engine.cluster;
                let silent = self.unacknowledged.without(self.failed.iter().map(|(node, _)| *node).collect());
                let failed = self.failed.iter().map(|(node, error)| cluster.vote(*node, Vote::Failed(error.clone())));
                let votes = failed.chain(silent.iter().map(|node| cluster.vote(node, Vote::Pending))).collect();
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
            match self.round.next_in_time().await {
                Some(reply) => self.count(reply),
                None => self.set_verdict(Verdict::Unknown),
            }
        }
    }

    fn count(&mut self, reply: NodeReply) {
        let (node, vote) = (reply.node, self.note(reply));
        if let Some(verdict) = self.tally.vote(node, vote) {
            self.set_verdict(verdict);
        }
    }

    /// Notes whether a node is to be asked again.
    fn note(&mut self, NodeReply { node, reply }: NodeReply) -> KeyVote {
        let vote = match reply {
            Ok(Reply::Released) => KeyVote::Held,
            Ok(_) => KeyVote::Gone,
            // Its server was asked over another address.
            Err(NodeError::Refused(Refusal::Duplicate { .. })) => KeyVote::NoReply,
            Err(error) => {
                self.failed.push((node, error));
                return KeyVote::NoReply;
            }
        };
        self.unacknowledged.remove(node);
        vote
    }

    fn count_received(&mut self) {
        while let Some(reply) = self.round.take() {
            self.count(reply);
        }
    }

    fn set_verdict(&mut self, verdict: Verdict) {
        if self.verdict.is_none() && verdict == Verdict::Unknown && self.was_granted {
            let key = self.engine.cluster.reporter.shown(self.keys.lock_key());
            log_event!(warn: "lock.release_failed", key, "no majority acknowledged a release within the node timeout");
        }
        self.verdict.get_or_insert(verdict);
    }

    /// Nobody waits for it any more.
    fn go_on_unawaited(mut self) {
        self.round.detach();
        let background = &self.engine.background;
        if self.verdict == Some(Verdict::Unknown) || !self.failed.is_empty() {
            // Perhaps because the home does not run any more. This runtime takes it over, even if it has only had the guard so far.
            background.home.start();
        }
        if self.failed.is_empty() && !background.finished.is_cancelled() {
            Unawaited::leave(self);
        } else {
            self.go_on();
        }
    }

    /// Completes the release in a task.
    fn go_on(self) {
        let engine = Arc::clone(&self.engine);
        engine.spawn(self.finish());
    }

    /// Completes the release, unless the manager ends before.
    fn finish(mut self) -> impl Future<Output = ()> {
        let finished = self.engine.background.finished.clone();
        // No `async fn`: its future would have room for the release twice, and is moved to a task of its own.
        async move {
            tokio::select! {
                biased;
                () = self.complete() => {}
                () = finished.cancelled() => self.set_verdict(Verdict::Unknown),
            }
        }
    }

    async fn complete(&mut self) {
        self.decide().await;
        self.round.await_all();
        while let Some(reply) = self.round.next_in_time().await {
            self.count(reply);
        }
        // Usually all have replied in time.
        if !self.is_complete() {
            Box::pin(self.ask_again()).await;
        }
    }

    /// Whether no node has to be asked again.
    fn is_complete(&self) -> bool {
        self.unacknowledged.is_empty()
    }
}

impl Drop for SentRelease {
    fn drop(&mut self) {
        if !self.is_complete() {
            Interrupted::leave(self);
        }
    }
}

mod again;
#[cfg(test)]
pub(super) mod tests;
mod unawaited;
