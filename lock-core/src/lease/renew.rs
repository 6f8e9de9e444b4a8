use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use super::shared_grant::SharedGrant;
use crate::cluster::Cluster;
use crate::engine::{Engine, NodeReply, Round};
use crate::error::{LossReason, NodeError};
use crate::kind::Kind;
use crate::node::{LockKeys, Operation, Reply, ReplySender};
use crate::quorum::{RenewalVote, RollCall, Tally, Verdict, word_is_good};

/// A renewal that has its verdict.
pub(super) struct Renewed {
    pub(super) lease: Lease,
    /// When the renewer has to deal with the lease again.
    pub(super) due: Instant,
    /// The rest of the round, if a majority renewed the lease.
    pub(super) stragglers: Option<Extension>,
}

/// Renews a lease that is due, up to the verdict. Of the readers that share a grant, one renews it at a time.
///
/// A writer shares its grant with nobody, and waits for no round: the one before may hang on a runtime that stalls.
pub(super) async fn renew(engine: Arc<Engine>, lease: Lease) -> Renewed {
    if lease.kind() != Kind::Read {
        return renew_now(engine, lease).await;
    }
    let now = Instant::now();
    let Some(_round) = lease.0.grant.begin_round(now, engine.node_timeout(lease.ttl())) else {
        let due = now + engine.random.jitter(retry_pause(lease.ttl()));
        return Renewed { lease, due, stragglers: None };
    };
    if !lease.renewal_is_due() {
        // Another reader has renewed it since this was decided.
        lease.catch_up();
        let due = lease.due();
        return Renewed { lease, due, stragglers: None };
    }
    renew_now(engine, lease).await
}

/// One round of renewal. Ends the lease if the nodes lost the lock.
async fn renew_now(engine: Arc<Engine>, lease: Lease) -> Renewed {
    let mut extension = Extension::send(&engine, &lease, extend(&lease));
    let late = lease.renewal_due().map_or(Duration::ZERO, |due| extension.sent.saturating_duration_since(due));
    match extension.verdict().await {
        Verdict::Held => {
            lease.0.hold.renewed(late, lease.ttl());
            extension.await_stragglers();
            let due = lease.due();
            Renewed { lease, due, stragglers: Some(extension) }
        }
        Verdict::Lost => {
            lease.0.hold.renewal_lost();
            lose(&lease);
            Renewed { lease, due: Instant::now(), stragglers: None }
        }
        Verdict::Unknown => {
            let first_error =
                extension.first_error.map(|(node, error)| (engine.cluster.members[node].node.name(), error));
            lease.0.hold.renewal_unknown(lease.remaining(), first_error);
            // At the end of the validity at the latest, to end the lease then.
            let due = Instant::now() + engine.random.jitter(retry_pause(lease.ttl())).min(lease.remaining());
            Renewed { lease, due, stragglers: None }
        }
    }
}

/// The pause after a renewal without a verdict: short, because validity is running out. A master that fails over, or a connection that
/// is made again, takes less than the two thirds of the time to live that are left for retries.
fn retry_pause(ttl: Duration) -> Duration {
    ttl / 24
}

/// The nodes lost the lock: the lease ends, and so do those of the other readers that share its grant.
fn lose(lease: &Lease) {
    lease.end(LossReason::Gone);
    lease.0.grant.lose();
}

/// Whether the nodes still have the lock for a lease that was taken a while ago, and that its holder gets only now. Asks them, unless
/// their word is still good. Ends the lease if they lost it.
pub(crate) async fn is_still_held(engine: &Arc<Engine>, lease: &Lease) -> bool {
    if lease.0.grant.sent().is_some_and(|word| word_is_good(word.elapsed())) {
        return true;
    }
    let verdict = Extension::send(engine, lease, extend(lease)).verdict().await;
    if verdict == Verdict::Lost {
        lose(lease);
    }
    verdict == Verdict::Held
}

/// Turns a writer into a reader on the nodes. The lease is extended if they did so.
pub(super) async fn downgrade(engine: &Arc<Engine>, lease: &Lease) -> Verdict {
    let operation = Operation::Downgrade { owner: lease.owner(), ttl: lease.ttl() };
    Extension::send(engine, lease, operation).verdict().await
}

fn extend(lease: &Lease) -> Operation {
    Operation::Extend { owner: lease.owner(), ttl: lease.ttl() }
}

/// One round of requests that extend the key of a lease, inside its present validity.
pub(super) struct Extension {
    engine: Arc<Engine>,
    lease: Lease,
    /// The validity counts from before the requests: a node's time to live begins when it executes one, and that is later.
    sent: Instant,
    deadline: Instant,
    round: Round,
    tally: Tally<RenewalVote>,
    first_error: Option<(usize, NodeError)>,
}

impl Extension {
    fn send(engine: &Arc<Engine>, lease: &Lease, operation: Operation) -> Self {
        let sent = Instant::now();
        // A verdict after the end of the validity is of no use: the holder has been told by then that the lock is lost.
        let deadline = (sent + lease.remaining()).min(sent + engine.node_timeout(lease.ttl()));
        let (round, tally) = send_to_all(&engine.cluster, lease.keys(), deadline, operation);
        Self { engine: Arc::clone(engine), lease: lease.clone(), sent, deadline, round, tally, first_error: None }
    }

    /// Counts replies up to the verdict. Extends the lease if the nodes still hold the lock.
    async fn verdict(&mut self) -> Verdict {
        while let Some(NodeReply { node, reply }) = self.next().await {
            match self.tally.vote(node, renewal_vote(&reply)) {
                Some(Verdict::Held) if self.extend_lease() => {
                    self.lease.0.grant.renewed(self.sent, self.tally.is_barred());
                    return Verdict::Held;
                }
                Some(Verdict::Lost) => return Verdict::Lost,
                _ => {}
            }
            if let Err(error) = reply {
                self.first_error.get_or_insert((node, error));
            }
        }
        Verdict::Unknown
    }

    /// Returns false if the lease ended while the votes were on their way: an end is for good. A lease that is not renewed stays as it
    /// is, and ends when it would have ended.
    fn extend_lease(&self) -> bool {
        if self.lease.renews() { self.lease.extend(self.sent) } else { self.lease.is_valid() }
    }

    /// The next reply, unless the lease has ended meanwhile: what was extended is then being deleted.
    async fn next(&mut self) -> Option<NodeReply> {
        tokio::select! {
            biased;
            () = self.lease.ended().cancelled() => None,
            reply = self.round.next() => reply,
        }
    }

    /// Awaits the nodes that have not replied, but not beyond the next round: a key that is put back counts from that round on, and the
    /// replies of two rounds must not be mixed.
    fn await_stragglers(&mut self) {
        if let Some(due) = self.lease.renewal_due().filter(|due| *due < self.deadline) {
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
        if self.lease.ended().is_cancelled() {
            return;
        }
        // After the round was counted: a key that is put back must not count as one that was kept.
        self.put_back();
        if self.tally.is_everywhere()
            && let Some(grant) = &mut *self.lease.grant()
        {
            grant.is_everywhere();
        }
    }

    /// Puts the key back on nodes that lost it, so that they count from the next round on. Not if the lock was released: a key that
    /// arrived after its own release would stay.
    ///
    /// By another operation than the renewal: one that extended a key or created it would bring a lost lock back to life beside the
    /// next holder's.
    fn put_back(&self) {
        let (lease, cluster) = (&self.lease, &self.engine.cluster);
        let (owner, ttl, token) = (lease.owner(), lease.ttl(), lease.token().get());
        for node in self.tally.gone() {
            let mut grant = lease.grant();
            let Some(grant) = &mut *grant else { return };
            grant.may_be_on(node);
            // Sent while the grant is locked, so that a release can only come after it. Nobody needs the reply.
            let replace = Operation::Replace { owner, ttl, token, mode: lease.kind().into() };
            cluster.send(node, &mut RollCall::by_any_roster(), lease.keys(), replace, ReplySender::unwanted());
        }
    }
}

/// Sends an operation to all nodes, to be awaited until a majority has replied.
fn send_to_all(
    cluster: &Arc<Cluster>,
    keys: &LockKeys,
    deadline: Instant,
    operation: Operation,
) -> (Round, Tally<RenewalVote>) {
    let mut round = Round::until(cluster, keys, deadline);
    round.await_majority_but(0);
    for node in 0..cluster.size() {
        round.send(node, operation);
    }
    (round, Tally::new(cluster.size()))
}

/// One round of extensions, for readers that would share a grant: is it still held, and does no writer wait? The grant notes the
/// answer.
pub(super) async fn ask_nodes(engine: Arc<Engine>, grant: Arc<SharedGrant>) {
    let (ttl, owner, sent) = (grant.ttl, grant.owner, Instant::now());
    let deadline = sent + engine.node_timeout(ttl);
    let (mut round, mut tally) = send_to_all(&engine.cluster, &grant.keys, deadline, Operation::Extend { owner, ttl });
    // The readers that wait for the answer have a timer each.
    while let Some(NodeReply { node, reply }) = round.next_whenever().await {
        if let Some(verdict) = tally.vote(node, renewal_vote(&reply)) {
            match verdict {
                Verdict::Held => grant.renewed(sent, tally.is_barred()),
                Verdict::Lost => grant.lose(),
                Verdict::Unknown => {}
            }
            return;
        }
    }
}

fn renewal_vote(reply: &Result<Reply, NodeError>) -> RenewalVote {
    match reply {
        Ok(Reply::Kept) => RenewalVote::Kept,
        Ok(Reply::Barred) => RenewalVote::Barred,
        Ok(Reply::Gone) => RenewalVote::Gone,
        _ => RenewalVote::NoReply,
    }
}
