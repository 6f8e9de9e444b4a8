use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::LeaseRegistry;
use super::renew::renew;

/// How many renewals are in progress at once, and how many of them wait for a slow node after their verdict. Further renewals
/// that are due wait for room, which there is as soon as a majority has replied. Without a bound, leases that are due at the
/// same moment would overflow the nodes' request queues.
const MAX_RENEWALS: usize = 1024;

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
