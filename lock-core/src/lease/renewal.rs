use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use crate::engine::{Engine, Round};
use crate::error::LossReason;
use crate::node::{Answer, NodeError, Reply, Request};
use crate::quorum::{Renewal, RenewalVerdict, RenewalVote};

/// Renews a lease that is due, and tells when it is due again, and who is to answer yet; ends it if the nodes lost it. One that
/// has ended is left alone.
pub(super) async fn renew(engine: &Arc<Engine>, lease: &Lease) -> (Instant, Option<Stragglers>) {
    let third = lease.0.options.ttl / 3;
    let (verdict, stragglers) = ask(engine, lease, Instant::now()).await;
    let due = match verdict {
        RenewalVerdict::Renewed => lease.due(),
        RenewalVerdict::Lost => {
            lease.end(LossReason::Gone);
            Instant::now()
        }
        RenewalVerdict::Unknown => {
            let remaining = lease.remaining();
            if !remaining.is_zero() {
                tracing::warn!(name: "lock.renewal_unknown", resource = lease.resource(), ?remaining,
                    "too few nodes answered a renewal; the lease stands, and is renewed again");
            }
            Instant::now() + engine.random.jitter(pause(third)).min(remaining)
        }
    };
    (due, stragglers)
}

/// The pause after a renewal of which nothing is known: short, for validity is running out.
fn pause(third: Duration) -> Duration {
    third / 8
}

/// One round of renewal, inside the old validity, up to the verdict.
async fn ask(engine: &Arc<Engine>, lease: &Lease, sent: Instant) -> (RenewalVerdict, Option<Stragglers>) {
    let (owner, ttl) = (lease.0.owner, lease.0.options.ttl);
    let cluster = &engine.cluster;
    let ends = sent + lease.remaining();
    let deadline = ends.min(sent + engine.node_timeout(ttl));
    let mut round = Round::new(cluster, &lease.0.keys, deadline);
    round.await_majority_but(0);
    for node in 0..cluster.size() {
        round.cast(node, Request::Extend { owner, ttl });
    }
    let mut renewal = Renewal::new(cluster.size());
    while let Some((node, answer)) = next_while_held(lease, &mut round).await {
        match renewal.vote(node, renewal_vote(&answer)) {
            Some(RenewalVerdict::Renewed) if lease.renew(sent) => {
                // Not beyond the next round: what is put back counts from there on, and no two are to be told apart.
                if lease.renewal_due() < deadline {
                    round.wait_until(lease.renewal_due());
                }
                round.await_all();
                let stragglers = Stragglers { engine: Arc::clone(engine), lease: lease.clone(), round, renewal };
                return (RenewalVerdict::Renewed, Some(stragglers));
            }
            Some(RenewalVerdict::Lost) => return (RenewalVerdict::Lost, None),
            _ => {}
        }
    }
    (RenewalVerdict::Unknown, None)
}

/// The next answer, unless the lease was released meanwhile: what was extended is being deleted.
async fn next_while_held(lease: &Lease, round: &mut Round) -> Option<(usize, Result<Reply, NodeError>)> {
    tokio::select! {
        biased;
        () = lease.0.ended.cancelled() => None,
        answered = round.next() => answered,
    }
}

/// The rest of a round by which a lease was renewed: some nodes may answer yet, or have lost the key.
pub(super) struct Stragglers {
    engine: Arc<Engine>,
    lease: Lease,
    round: Round,
    renewal: Renewal,
}

impl Stragglers {
    /// Waits for the others, and puts the key back on nodes that lost it. Dropped, it leaves that to the next renewal.
    pub(super) async fn await_all(mut self) {
        while let Some((node, answer)) = next_while_held(&self.lease, &mut self.round).await {
            self.renewal.vote(node, renewal_vote(&answer));
        }
        if !self.lease.0.ended.is_cancelled() {
            replace(&self.engine, &self.lease, self.renewal.gone());
        }
    }
}

/// Puts the key back on nodes that lost it, so that they count from the next round on. Unless the lease was released: a key
/// that came after its own release would stay.
fn replace(engine: &Arc<Engine>, lease: &Lease, gone: impl Iterator<Item = usize>) {
    let (owner, ttl, fence) = (lease.0.owner, lease.0.options.ttl, lease.token().get());
    for node in gone {
        let mut upkeep = lease.upkeep();
        if upkeep.released {
            return;
        }
        upkeep.nodes.insert(node);
        // Cast while the gate is held, so that the release can only come behind it. Nobody needs the answer.
        engine.cluster.cast(node, &lease.0.keys, Request::Replace { owner, ttl, fence }, Answer::unwanted());
    }
}

fn renewal_vote(answer: &Result<Reply, NodeError>) -> RenewalVote {
    match answer {
        Ok(Reply::Kept) => RenewalVote::Kept,
        Ok(Reply::Gone) => RenewalVote::Gone,
        _ => RenewalVote::NoAnswer,
    }
}
