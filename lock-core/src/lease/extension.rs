use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Lease;
use super::shared_grant::SharedGrant;
use crate::engine::{Engine, NodeReply, Round, Tenure};
use crate::error::{NodeError, NodeVote, Vote};
use crate::node::{Operation, Reply, ReplySender};
use crate::quorum::{KeyVote, OUTAGE_GRACE, RollCall, Tally, Verdict};

/// What the nodes are asked for, to extend the key of a grant.
pub(super) fn extend(grant: &SharedGrant) -> Operation {
    Operation::Extend { owner: grant.owner, ttl: grant.ttl }
}

/// One round of requests that extend the key of a grant, for one of its leases or for readers that would share it.
pub(super) struct Extension {
    engine: Arc<Engine>,
    grant: Arc<SharedGrant>,
    lease: Option<Lease>,
    /// The validity counts from before the requests: a node's time to live begins when it executes one, and that is later.
    pub(super) sent: Instant,
    deadline: Instant,
    round: Round,
    tally: Tally,
    /// What nodes replied that have no vote.
    pub(super) errors: Vec<(usize, NodeError)>,
}

impl Extension {
    /// Sends the requests of a lease. A verdict after the end of its validity is of no use: the holder has been told by then that the lock
    /// is lost.
    pub(super) fn of_lease(engine: &Arc<Engine>, lease: &Lease, operation: Operation) -> Self {
        let timeout = engine.node_timeout(lease.ttl()).min(lease.remaining());
        Self::send(engine, &lease.0.grant, Some(lease.clone()), operation, timeout)
    }

    /// Sends the requests to all nodes, to be awaited until a majority has replied.
    pub(super) fn send(
        engine: &Arc<Engine>,
        grant: &Arc<SharedGrant>,
        lease: Option<Lease>,
        operation: Operation,
        timeout: Duration,
    ) -> Self {
        let (cluster, sent) = (&engine.cluster, Instant::now());
        let deadline = sent + timeout;
        let (mut round, tally) = (Round::until(cluster, &grant.keys, deadline).timed(sent), Tally::new(cluster.size()));
        // No verdict is possible before a majority has replied: a task that is woken for each reply has nothing to do for the
        // first.
        round.await_majority_but(0);
        for node in 0..cluster.size() {
            round.send(node, operation);
        }
        let (engine, grant) = (Arc::clone(engine), Arc::clone(grant));
        Self { engine, grant, lease, sent, deadline, round, tally, errors: Vec::new() }
    }

    /// Counts replies up to the verdict. Extends the lease if the nodes still hold the lock.
    pub(super) async fn verdict(&mut self) -> Verdict {
        while let Some(NodeReply { node, reply }) = self.next().await {
            match self.tally.vote(node, renewal_vote(&reply)) {
                Some(Verdict::Held) if self.extend_lease() => {
                    self.grant.renewed(self.sent, self.tally.is_barred());
                    return Verdict::Held;
                }
                // Final, whatever the missing nodes reply: too many have said that the key is gone for the others to be a
                // majority.
                Some(Verdict::Lost) => return Verdict::Lost,
                _ => {}
            }
            if let Err(error) = reply {
                self.errors.push((node, error));
            }
        }
        Verdict::Unknown
    }

    /// Whether too few nodes have a vote because the members changed, and the others vote by now.
    pub(super) async fn is_overtaken(&mut self) -> bool {
        let Some(lease) = &self.lease else { return false };
        let errors = self.errors.iter().map(|(_, error)| error);
        timeout(lease.remaining(), self.engine.cluster.is_overtaken(self.round.roster(), errors)).await == Ok(true)
    }

    /// Whether too few nodes have a vote because connections were being made, or because the home did not run and moves within a second; then
    /// waits for all first connections: the lock may rest on a bare majority.
    pub(super) async fn connects(&mut self, before: Tenure) -> bool {
        let Some(lease) = &self.lease else { return false };
        let Engine { cluster, background, .. } = &*self.engine;
        let is_connecting = self.errors.iter().any(|(_, error)| matches!(error, NodeError::Unreachable { .. }));
        let moves = timeout(lease.remaining().min(OUTAGE_GRACE), background.home.moved_since(before));
        if !is_connecting && moves.await != Ok(true) {
            return false;
        }
        timeout(lease.remaining(), cluster.all_joined()).await.is_ok()
    }

    /// The nodes that have no vote, each with the reason.
    pub(super) fn failures(&self) -> Vec<NodeVote> {
        let cluster = &self.engine.cluster;
        let failure = |node| {
            let error = self.errors.iter().find(|(of, _)| *of == node).map(|(_, error)| error.clone());
            cluster.vote(node, Vote::Failed(error.unwrap_or_else(|| cluster.timed_out(node))))
        };
        self.tally.missing().map(failure).collect()
    }

    /// Returns false if the lease ended while the votes were on their way: an end is for good. A lease that is not renewed stays as it
    /// is, and ends when it would have ended.
    fn extend_lease(&self) -> bool {
        match &self.lease {
            Some(lease) if lease.renews() => lease.extend(self.sent, lease.ttl()),
            Some(lease) => lease.is_valid(),
            None => true,
        }
    }

    /// The next reply, unless the lease has ended meanwhile: what was extended is then being deleted.
    async fn next(&mut self) -> Option<NodeReply> {
        // The readers that wait for the answer have a timer each.
        let Some(lease) = &self.lease else { return self.round.next_whenever().await };
        tokio::select! {
            biased;
            () = lease.ended() => None,
            reply = self.round.next() => reply,
        }
    }

    /// Awaits the nodes that have not replied, but not beyond the next round: a key that is put back counts from that round on, and the
    /// replies of two rounds must not be mixed.
    pub(super) fn await_stragglers(&mut self, next_round: Option<Instant>) {
        if let Some(due) = next_round.filter(|due| *due < self.deadline) {
            self.round.extend_until(due);
        }
        self.round.await_all();
    }

    /// Waits for the missing replies, and puts the key back on nodes that lost it. Dropped, it leaves that to the next renewal.
    ///
    /// A lease whose key is only on a bare majority is lost with the next node that restarts. So the key is put back wherever it is
    /// missing, but outside the renewal, which nothing may hold up.
    pub(super) async fn finish(mut self) {
        while let Some(NodeReply { node, reply }) = self.next().await {
            self.tally.vote(node, renewal_vote(&reply));
        }
        let Some(lease) = self.lease.as_ref().filter(|lease| lease.loss().is_none()) else { return };
        // After the round was counted: a key that is put back must not count as one that was kept.
        self.put_back(lease);
        // The early renewals end here. Until every node has the key, one clock that is stepped forward may free the lock for a
        // majority.
        if self.tally.is_everywhere()
            && let Some(grant) = &mut *self.grant.grant()
        {
            grant.is_everywhere();
        }
    }

    /// Puts the key back on nodes that lost it, so that they count from the next round on. Not if the lock was released: a key that
    /// arrived after its own release would stay.
    ///
    /// By another operation than the renewal: one that extended a key or created it would bring a lost lock back to life beside the
    /// next holder's.
    fn put_back(&self, lease: &Lease) {
        let SharedGrant { ref keys, owner, ttl, token, .. } = *self.grant;
        for node in self.tally.gone() {
            let mut grant = self.grant.grant();
            let Some(grant) = &mut *grant else { return };
            // Before it is sent: the release must go there, too, even if nothing is ever heard of this request.
            grant.may_be_on(node);
            // Sent while the grant is locked, so that a release can only come after it. Nobody needs the reply.
            let replace = Operation::Replace { owner, ttl, token: token.get(), kind: lease.kind() };
            self.engine.cluster.send(
                node,
                &mut RollCall::by_any_roster(),
                keys,
                replace,
                ReplySender::unwanted(),
                None,
            );
        }
    }
}

fn renewal_vote(reply: &Result<Reply, NodeError>) -> KeyVote {
    match reply {
        Ok(Reply::Kept) => KeyVote::Held,
        Ok(Reply::Barred) => KeyVote::Barred,
        Ok(Reply::Gone) => KeyVote::Gone,
        // An error is no vote against the lease. A node that cannot be reached may have the key all the same.
        _ => KeyVote::NoReply,
    }
}
