use std::sync::{Arc, Weak};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Lease;
use super::renewal::{self, Stragglers};
use crate::engine::Engine;
use crate::held::HeldLeases;

/// Renewals that are under way at once. What is due beyond that waits for room, which there is when a majority has answered;
/// without a bound, the leases of one moment would overrun the nodes' mailboxes. And so many are awaited by one node that is slow.
const MOST_AT_ONCE: usize = 1024;

/// Keeps all leases of a manager: renews each at a third of its time to live, until `max_hold`, and ends it when its time is
/// over. One task for all of them, which sleeps until the first is due.
pub(crate) async fn keep(engine: Weak<Engine>, held: Arc<HeldLeases>, stop: CancellationToken) {
    held.take_over();
    let (mut renewing, mut straggling) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        while renewing.len() < MOST_AT_ONCE
            && let Some(lease) = held.take_due(Instant::now())
        {
            if !lease.is_valid() {
                continue;
            }
            if lease.renews() && lease.renewal_due() <= Instant::now() {
                let Some(engine) = engine.upgrade() else { return };
                renewing.push(renew(engine, lease));
            } else {
                held.put_off(&lease, lease.due());
            }
        }
        let room = renewing.len() < MOST_AT_ONCE;
        let next = held.next_due();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((lease, due, stragglers)) = renewing.next() => {
                held.put_off(&lease, due);
                if let Some(stragglers) = stragglers && straggling.len() < MOST_AT_ONCE {
                    straggling.push(stragglers.await_all());
                }
            }
            Some(()) = straggling.next() => {}
            () = held.sooner() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if room && next.is_some() => {}
        }
    }
}

async fn renew(engine: Arc<Engine>, lease: Lease) -> (Lease, Instant, Option<Stragglers>) {
    let (due, stragglers) = renewal::renew(&engine, &lease).await;
    (lease, due, stragglers)
}
