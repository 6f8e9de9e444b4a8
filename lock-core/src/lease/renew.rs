use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::shared_grant::SharedGrant;
use super::{Lease, LeaseRegistry};
use crate::engine::{Engine, NodeReply, Round, Tenure};
use crate::error::{LossReason, NodeError, NodeVote, Vote};
use crate::node::{Operation, Reply, ReplySender};
use crate::observer::RenewalOutcome;
use crate::quorum::{KeyVote, OUTAGE_GRACE, RollCall, Tally, Verdict, word_is_good};

/// How often the nodes are asked at most whether a lock is still held, if they take long to reply.
const MAX_QUESTIONS: u32 = 2;

/// Renews a lease that is due, up to the verdict. Ends it if the nodes lost the lock. Returns when the renewer has to deal with the lease
/// again, and the rest of the round, if a majority renewed the lease.
///
/// Of the readers that share a grant, one renews it at a time. A writer shares its grant with nobody, and waits for no round: the one before
/// may hang on a runtime that stalls.
pub(super) async fn renew(
    engine: &Arc<Engine>,
    registry: &LeaseRegistry,
    lease: &Lease,
) -> (Instant, Option<Extension>) {
    let _round = if lease.kind().is_read() {
        // Readers of one grant are due at the same moment. One round for each would ask the nodes once for every reader of the
        // process.
        let Some(round) = lease.0.grant.begin_round(Instant::now(), engine.node_timeout(lease.ttl())) else {
            return (retry_at(engine, lease), None);
        };
        if !lease.renewal_is_due(Instant::now()) {
            // Another reader has renewed it since this was decided.
            lease.catch_up();
            return (lease.due(), None);
        }
        Some(round)
    } else {
        None
    };
    let mut extension = Extension::of_lease(engine, lease, extend(&lease.0.grant));
    // Measured when it is sent: how long the nodes take is no fault of this process, and is not to be reported as one.
    let late = lease.renewal_due().map_or(Duration::ZERO, |due| extension.sent.saturating_duration_since(due));
    match extension.verdict().await {
        Verdict::Held => {
            lease.0.hold.renewed(late, lease.ttl());
            // The lease is extended by now. What is left of the round only repairs nodes, so it must not keep the renewer from
            // its next lease.
            extension.await_stragglers(lease.renewal_due());
            (lease.due(), Some(extension))
        }
        Verdict::Lost => {
            lease.0.hold.renewal_ended(RenewalOutcome::Lost);
            lose(registry, lease);
            // Due at once: the renewer finds that it has ended, and does not look at it again.
            (Instant::now(), None)
        }
        // It was released, or ended otherwise, before a majority had replied: that says nothing about the nodes.
        Verdict::Unknown if lease.loss().is_some_and(|reason| reason != LossReason::Expired) => (Instant::now(), None),
        Verdict::Unknown => {
            // One is logged: the warning is about the lease, and not about each node.
            let first_error = extension.errors.into_iter().next();
            let first_error = first_error.map(|(node, error)| (engine.cluster.name(node), error));
            lease.0.hold.renewal_unknown(lease.remaining(), first_error);
            (retry_at(engine, lease), None)
        }
    }
}

/// When a renewal is made again that had no verdict, or is another reader's: soon, because validity is running out. A master that fails
/// over, or a connection that is made again, takes less than the two thirds of the time to live that are left for retries. At the end of
/// the validity at the latest, to end the lease then.
fn retry_at(engine: &Engine, lease: &Lease) -> Instant {
    Instant::now() + engine.cluster.random.jitter(lease.ttl() / 24).min(lease.remaining())
}

/// The nodes lost the lock of a lease.
fn lose(registry: &LeaseRegistry, lease: &Lease) {
    lease.end(LossReason::Gone);
    if lease.kind().is_read() {
        registry.lose(&lease.0.grant);
    }
}

/// Whether the nodes still have the lock for a lease that was taken a while ago, and that its holder gets only now. Asks them, unless
/// their word is still good, and leaves this much validity; and again if it was too old when it came. Nodes that are always that slow are
/// believed in the end. Ends the lease if they lost it.
pub(crate) async fn is_still_held(registry: &LeaseRegistry, lease: &Lease, least: Duration) -> Verdict {
    let Some(engine) = lease.engine() else { return Verdict::Lost };
    for _ in 0..MAX_QUESTIONS {
        let is_good = lease.0.grant.sent().is_some_and(|word| word_is_good(word.elapsed()));
        if is_good && (lease.remaining() >= least || !lease.renews()) {
            return Verdict::Held;
        }
        match Extension::of_lease(&engine, lease, extend(&lease.0.grant)).verdict().await {
            // Not yet the verdict: if the answer took longer than a word is good for, somebody may have been let in meanwhile.
            Verdict::Held => {}
            Verdict::Lost => {
                lose(registry, lease);
                return Verdict::Lost;
            }
            Verdict::Unknown => return Verdict::Unknown,
        }
    }
    Verdict::Held
}

/// Turns a writer into a reader on the nodes, or says what keeps them from it. The lease is extended if they did so.
pub(super) async fn downgrade(engine: &Arc<Engine>, lease: &Lease) -> (Verdict, Vec<NodeVote>) {
    let (operation, home) = (Operation::Downgrade { owner: lease.owner(), ttl: lease.ttl() }, &engine.background.home);
    // The runtime with the connections may be gone, and this one may have had only the guard so far.
    home.start();
    _ = timeout(lease.remaining(), engine.first_contact()).await;
    let before = home.tenure();
    let mut extension = Extension::of_lease(engine, lease, operation);
    let mut verdict = extension.verdict().await;
    if verdict == Verdict::Unknown && (extension.is_overtaken().await || extension.moves_home(before).await) {
        // A node that has done it already extends what its owner reads.
        extension = Extension::of_lease(engine, lease, operation);
        verdict = extension.verdict().await;
    }
    let failures = if verdict == Verdict::Unknown { extension.failures() } else { Vec::new() };
    (verdict, failures)
}

/// Asks the nodes for readers that would share a grant: is it still held, and does no writer wait? The grant notes the answer.
pub(super) async fn ask_nodes(engine: Arc<Engine>, registry: Arc<LeaseRegistry>, grant: Arc<SharedGrant>) {
    let timeout = engine.node_timeout(grant.ttl);
    if Extension::send(&engine, &grant, None, extend(&grant), timeout).verdict().await == Verdict::Lost {
        registry.lose(&grant);
    }
}

fn extend(grant: &SharedGrant) -> Operation {
    Operation::Extend { owner: grant.owner, ttl: grant.ttl }
}

/// One round of requests that extend the key of a grant, for one of its leases or for readers that would share it.
pub(super) struct Extension {
    engine: Arc<Engine>,
    grant: Arc<SharedGrant>,
    lease: Option<Lease>,
    /// The validity counts from before the requests: a node's time to live begins when it executes one, and that is later.
    sent: Instant,
    deadline: Instant,
    round: Round,
    tally: Tally,
    /// What nodes replied that have no vote.
    errors: Vec<(usize, NodeError)>,
}

impl Extension {
    /// Sends the requests of a lease. A verdict after the end of its validity is of no use: the holder has been told by then that the lock
    /// is lost.
    fn of_lease(engine: &Arc<Engine>, lease: &Lease, operation: Operation) -> Self {
        let timeout = engine.node_timeout(lease.ttl()).min(lease.remaining());
        Self::send(engine, &lease.0.grant, Some(lease.clone()), operation, timeout)
    }

    /// Sends the requests to all nodes, to be awaited until a majority has replied.
    fn send(
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
    async fn verdict(&mut self) -> Verdict {
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
    async fn is_overtaken(&mut self) -> bool {
        let Some(lease) = &self.lease else { return false };
        let errors = self.errors.iter().map(|(_, error)| error);
        timeout(lease.remaining(), self.engine.cluster.is_overtaken(self.round.roster(), errors)).await == Ok(true)
    }

    /// Whether too few nodes have a vote because the home did not run, and it moves within a second; then waits for the connections.
    async fn moves_home(&mut self, before: Tenure) -> bool {
        let Some(lease) = &self.lease else { return false };
        let moves = async {
            let moves = self.engine.background.home.moved_since(before).await;
            self.engine.first_contact().await;
            moves
        };
        timeout(lease.remaining().min(OUTAGE_GRACE), moves).await == Ok(true)
    }

    /// The nodes that have no vote, each with the reason.
    fn failures(&self) -> Vec<NodeVote> {
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
    fn await_stragglers(&mut self, next_round: Option<Instant>) {
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
            self.engine.cluster.send(node, &mut RollCall::by_any_roster(), keys, replace, ReplySender::unwanted());
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
