use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until, timeout};

use super::extension::{Extension, extend};
use super::shared_grant::SharedGrant;
use super::{Lease, LeaseRegistry};
use crate::engine::Engine;
use crate::error::{LossReason, NodeVote};
use crate::node::Operation;
use crate::observer::RenewalOutcome;
use crate::quorum::{Verdict, word_is_good};

/// How many renewals are in progress at once, and how many of them wait for a slow node after their verdict. Further renewals
/// that are due wait for room, which there is as soon as a majority has replied. Without a bound, leases that are due at the
/// same moment would overflow the nodes' request queues.
const MAX_RENEWALS: usize = 1024;
/// How often the nodes are asked at most whether a lock is still held, if they take long to reply.
const MAX_QUESTIONS: u32 = 2;

/// Renews each lease of a manager at a third of its time to live, until `max_hold`, and ends it when its validity is over. This
/// is one task for all leases, which sleeps until the first of them is due.
pub(crate) async fn run_renewer(registry: Arc<LeaseRegistry>) {
    // The renewer before this one may have been dropped in the middle of a renewal, together with its runtime.
    registry.take_over();
    let (mut renewals, mut stragglers) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        while renewals.len() < MAX_RENEWALS
            && let Some(lease) = registry.take_due(Instant::now())
        {
            // Another reader of the grant may have renewed it. Otherwise each of them would end by its own clock, beside a key
            // that lives.
            lease.catch_up();
            if !lease.is_valid() {
                // It has ended itself by that look. Its guard removes it from the registry.
                continue;
            }
            if lease.renews() && lease.renewal_is_due(Instant::now()) {
                // Without a grant, it is being released.
                let Some(engine) = lease.engine() else { continue };
                let registry = &*registry;
                renewals.push(async move { (renew(&engine, registry, &lease).await, lease) });
            } else {
                registry.reschedule(&lease, lease.due());
            }
        }
        let (room, next) = (renewals.len() < MAX_RENEWALS, registry.next_due());
        tokio::select! {
            biased;
            Some(((due, rest), lease)) = renewals.next() => {
                registry.reschedule(&lease, due);
                // With that many slow rounds, the rest of this one is dropped: the next renewal puts back what is missing.
                if let Some(rest) = rest && stragglers.len() < MAX_RENEWALS {
                    stragglers.push(rest.finish());
                }
            }
            Some(()) = stragglers.next() => {}
            () = registry.earlier.notified() => {}
            // Without room, being due is no reason to wake: a renewal that ends makes room, and is the event above.
            () = sleep_until(next.unwrap_or_else(Instant::now)), if room && next.is_some() => {}
        }
    }
}

/// Renews a lease that is due, up to the verdict. Ends it if the nodes lost the lock. Returns when the renewer has to deal with the lease
/// again, and the rest of the round, if a majority renewed the lease.
///
/// Of the readers that share a grant, one renews it at a time. A writer shares its grant with nobody, and waits for no round: the one before
/// may hang on a runtime that stalls.
async fn renew(engine: &Arc<Engine>, registry: &LeaseRegistry, lease: &Lease) -> (Instant, Option<Extension>) {
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
    if verdict == Verdict::Unknown && (extension.is_overtaken().await || extension.connects(before).await) {
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
