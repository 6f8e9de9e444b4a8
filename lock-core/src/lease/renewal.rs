use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Lease;
use crate::engine::{Engine, Round};
use crate::error::LossReason;
use crate::node::{Answer, NodeError, Reply, Request};
use crate::quorum::{Renewal, RenewalVerdict, RenewalVote};

/// Renews a lease that is due, and tells when it is due again; ends it if the nodes lost it. One that has ended is left alone.
pub(super) async fn renew(engine: &Arc<Engine>, lease: &Lease) -> Instant {
    let third = lease.0.options.ttl / 3;
    match ask(engine, lease, Instant::now()).await {
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
    }
}

/// The pause after a renewal of which nothing is known: short, for validity is running out.
fn pause(third: Duration) -> Duration {
    third / 8
}

/// How long the other nodes are awaited after a majority renewed, only to see whether they lost the key: one that is slow does not
/// hold up the renewals that wait for room.
const STRAGGLERS: Duration = Duration::from_millis(50);

/// One round of renewal, inside the old validity.
async fn ask(engine: &Arc<Engine>, lease: &Lease, sent: Instant) -> RenewalVerdict {
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
    let mut verdict = RenewalVerdict::Unknown;
    loop {
        let answered = tokio::select! {
            biased;
            // Released meanwhile: what was extended is being deleted.
            () = lease.0.ended.cancelled() => return verdict,
            answered = round.next() => answered,
        };
        let Some((node, answer)) = answered else { break };
        match renewal.vote(node, renewal_vote(&answer)) {
            Some(RenewalVerdict::Renewed) if lease.renew(sent) => {
                verdict = RenewalVerdict::Renewed;
                round.wait_until(deadline.min(Instant::now() + STRAGGLERS));
            }
            Some(RenewalVerdict::Lost) => return RenewalVerdict::Lost,
            _ => {}
        }
    }
    if verdict == RenewalVerdict::Renewed {
        replace(engine, lease, renewal.gone());
    }
    verdict
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
