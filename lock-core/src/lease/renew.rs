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
use crate::quorum::{RenewalTally, RenewalVerdict, RenewalVote, RollCall, word_is_good};

/// A renewal that has its verdict.
pub(super) struct Renewed {
    pub(super) lease: Lease,
    /// When the renewer has to deal with the lease again.
    pub(super) due: Instant,
    /// The nodes that have not replied, if a majority renewed the lease.
    pub(super) stragglers: Option<Stragglers>,
}

/// Renews a lease that is due, up to the verdict. Of the readers that share a grant, one renews it at a time.
///
/// A writer shares its grant with nobody, and waits for no round: the one before may hang on a runtime that stalls.
pub(super) async fn renew(engine: Arc<Engine>, lease: Lease) -> Renewed {
    match lease.kind() {
        Kind::Write | Kind::Permit { .. } => return renew_now(engine, lease).await,
        Kind::Read => {}
    }
    let now = Instant::now();
    let Some(_round) = lease.shared_grant().begin_round(now, engine.node_timeout(lease.ttl())) else {
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
    // The validity counts from before the requests: a node's time to live begins when it executes one, and that is later.
    let sent = Instant::now();
    let late = lease.renewal_due().map_or(Duration::ZERO, |due| sent.saturating_duration_since(due));
    let (verdict, stragglers) = extend(&engine, &lease, sent).await;
    let due = match verdict {
        RenewalVerdict::Renewed => {
            lease.hold().renewed(late, lease.ttl());
            lease.due()
        }
        RenewalVerdict::Lost => {
            lease.hold().renewal_lost();
            lease.end(LossReason::Gone);
            // The other readers that share the grant have lost it with this one.
            lease.shared_grant().lose();
            Instant::now()
        }
        RenewalVerdict::Unknown => {
            // At the end of the validity at the latest, to end the lease then.
            Instant::now() + engine.random.jitter(retry_pause(lease.ttl())).min(lease.remaining())
        }
    };
    Renewed { lease, due, stragglers }
}

/// The pause after a renewal without a verdict: short, because validity is running out. A master that fails over, or a connection that
/// is made again, takes less than the two thirds of the time to live that are left for retries.
fn retry_pause(ttl: Duration) -> Duration {
    ttl / 24
}

/// One round of extensions, inside the present validity, up to the verdict.
async fn extend(engine: &Arc<Engine>, lease: &Lease, sent: Instant) -> (RenewalVerdict, Option<Stragglers>) {
    let (owner, ttl) = (lease.owner(), lease.ttl());
    let cluster = &engine.cluster;
    // A verdict after the end of the validity is of no use: the holder has been told by then that the lock is lost.
    let deadline = (sent + lease.remaining()).min(sent + engine.node_timeout(ttl));
    let mut round = send_to_all(cluster, lease.keys(), deadline, Operation::Extend { owner, ttl });
    let (mut tally, mut first_error) = (RenewalTally::new(cluster.size()), None);
    while let Some(NodeReply { node, reply }) = next_while_held(lease, &mut round).await {
        match tally.vote(node, renewal_vote(&reply)) {
            // Not if the lease ended while the votes were on their way: an end is for good.
            Some(RenewalVerdict::Renewed) if lease.extend(sent) => {
                lease.shared_grant().renewed(sent, tally.is_barred());
                // Not beyond the next round: a key that is put back counts from that round on, and the replies of two rounds
                // must not be mixed.
                if let Some(due) = lease.renewal_due().filter(|due| *due < deadline) {
                    round.extend_until(due);
                }
                round.await_all();
                let stragglers = Stragglers { engine: Arc::clone(engine), lease: lease.clone(), round, tally };
                return (RenewalVerdict::Renewed, Some(stragglers));
            }
            Some(RenewalVerdict::Lost) => return (RenewalVerdict::Lost, None),
            _ => {}
        }
        if let Err(error) = reply {
            first_error.get_or_insert((cluster.members[node].node.name(), error));
        }
    }
    lease.hold().renewal_unknown(lease.remaining(), first_error);
    (RenewalVerdict::Unknown, None)
}

/// Sends an operation to all nodes, to be awaited until a majority has replied.
fn send_to_all(cluster: &Arc<Cluster>, keys: &LockKeys, deadline: Instant, operation: Operation) -> Round {
    let mut round = Round::until(cluster, keys, deadline);
    round.await_majority_but(0);
    for node in 0..cluster.size() {
        round.send(node, operation);
    }
    round
}

/// The next reply, unless the lease has ended meanwhile: what was extended is then being deleted.
async fn next_while_held(lease: &Lease, round: &mut Round) -> Option<NodeReply> {
    tokio::select! {
        biased;
        () = lease.ended().cancelled() => None,
        reply = round.next() => reply,
    }
}

/// The rest of a round that renewed a lease: some nodes have not replied, others have lost the key.
///
/// A lease whose key is only on a bare majority is lost with the next node that restarts. So the key is put back wherever it is
/// missing, but outside the renewal, which nothing may hold up.
pub(super) struct Stragglers {
    engine: Arc<Engine>,
    lease: Lease,
    round: Round,
    tally: RenewalTally,
}

impl Stragglers {
    /// Waits for the missing replies, and puts the key back on nodes that lost it. Dropped, it leaves that to the next renewal.
    pub(super) async fn finish(mut self) {
        while let Some(NodeReply { node, reply }) = next_while_held(&self.lease, &mut self.round).await {
            self.tally.vote(node, renewal_vote(&reply));
        }
        if self.lease.ended().is_cancelled() {
            return;
        }
        // After the round was counted: a key that is put back must not count as one that was kept.
        put_back(&self.engine, &self.lease, self.tally.gone());
        if self.tally.is_everywhere()
            && let Some(grant) = &mut *self.lease.grant()
        {
            grant.is_everywhere();
        }
    }
}

/// Puts the key back on nodes that lost it, so that they count from the next round on. Not if the lock was released: a key that
/// arrived after its own release would stay.
///
/// By another operation than the renewal: one that extended a key or created it would bring a lost lock back to life beside the next
/// holder's.
fn put_back(engine: &Arc<Engine>, lease: &Lease, gone: impl Iterator<Item = usize>) {
    let (owner, ttl, token) = (lease.owner(), lease.ttl(), lease.token().get());
    for node in gone {
        let mut grant = lease.grant();
        let Some(grant) = &mut *grant else { return };
        grant.may_be_on(node);
        // Sent while the grant is locked, so that a release can only come after it. Nobody needs the reply.
        let replace = Operation::Replace { owner, ttl, token, mode: lease.kind().into() };
        engine.cluster.send(node, &mut RollCall::by_any_roster(), lease.keys(), replace, ReplySender::unwanted());
    }
}

/// One round of extensions, for readers that would share a grant: is it still held, and does no writer wait? The grant notes the
/// answer.
pub(super) async fn ask_nodes(engine: Arc<Engine>, grant: Arc<SharedGrant>) {
    let (cluster, ttl, owner, sent) = (&engine.cluster, grant.ttl, grant.owner, Instant::now());
    let deadline = sent + engine.node_timeout(ttl);
    let mut round = send_to_all(cluster, &grant.keys, deadline, Operation::Extend { owner, ttl });
    let mut tally = RenewalTally::new(cluster.size());
    // The readers that wait for the answer have a timer each.
    while let Some(NodeReply { node, reply }) = round.next_whenever().await {
        if let Some(verdict) = tally.vote(node, renewal_vote(&reply)) {
            match verdict {
                RenewalVerdict::Renewed => grant.renewed(sent, tally.is_barred()),
                RenewalVerdict::Lost => grant.lose(),
                RenewalVerdict::Unknown => {}
            }
            return;
        }
    }
}

/// Whether the nodes still have the lock for a lease that was taken a while ago, and that its holder gets only now. Asks them, unless
/// their word is still good. Ends the lease if they lost it.
pub(crate) async fn is_still_held(engine: &Arc<Engine>, lease: &Lease) -> bool {
    let sent = Instant::now();
    let grant = lease.shared_grant();
    if grant.sent().is_some_and(|word| word_is_good(sent.saturating_duration_since(word))) {
        return true;
    }
    let (cluster, ttl, owner) = (&engine.cluster, lease.ttl(), lease.owner());
    let deadline = (sent + lease.remaining()).min(sent + engine.node_timeout(ttl));
    let mut round = send_to_all(cluster, lease.keys(), deadline, Operation::Extend { owner, ttl });
    let mut tally = RenewalTally::new(cluster.size());
    while let Some(NodeReply { node, reply }) = next_while_held(lease, &mut round).await {
        match tally.vote(node, renewal_vote(&reply)) {
            // A lease that is not renewed ends when it would have ended.
            Some(RenewalVerdict::Renewed) if lease.is_valid() && (!lease.renews() || lease.extend(sent)) => {
                grant.renewed(sent, tally.is_barred());
                return true;
            }
            Some(RenewalVerdict::Lost) => {
                lease.end(LossReason::Gone);
                grant.lose();
            }
            _ => {}
        }
    }
    false
}

/// Turns a writer into a reader on the nodes. Returns what the nodes decided; the lease is extended if they did so.
pub(super) async fn downgrade(engine: &Arc<Engine>, lease: &Lease) -> RenewalVerdict {
    let (cluster, ttl, owner, sent) = (&engine.cluster, lease.ttl(), lease.owner(), Instant::now());
    let deadline = (sent + lease.remaining()).min(sent + engine.node_timeout(ttl));
    let mut round = send_to_all(cluster, lease.keys(), deadline, Operation::Downgrade { owner, ttl });
    let mut tally = RenewalTally::new(cluster.size());
    while let Some(NodeReply { node, reply }) = next_while_held(lease, &mut round).await {
        match tally.vote(node, renewal_vote(&reply)) {
            // A lease that is not renewed ends when it would have ended.
            Some(RenewalVerdict::Renewed) if lease.is_valid() && (!lease.renews() || lease.extend(sent)) => {
                lease.shared_grant().renewed(sent, tally.is_barred());
                return RenewalVerdict::Renewed;
            }
            Some(RenewalVerdict::Lost) => return RenewalVerdict::Lost,
            _ => {}
        }
    }
    RenewalVerdict::Unknown
}

fn renewal_vote(reply: &Result<Reply, NodeError>) -> RenewalVote {
    match reply {
        Ok(Reply::Kept) => RenewalVote::Kept,
        Ok(Reply::Barred) => RenewalVote::Barred,
        Ok(Reply::Gone) => RenewalVote::Gone,
        _ => RenewalVote::NoReply,
    }
}
