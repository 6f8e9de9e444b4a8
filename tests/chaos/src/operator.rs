//! An operator in a service, who takes a lock or a slot from its holder now and then, and claims the token at the resource.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::history::{Event, Record};
use super::service::Shared;
use super::worker::kind;
use super::{QUICK_RESOURCE, RESOURCES, resource, slots};
use lock_history::{Eviction, Moment};
use lock_support::Dice;

/// The shortest and the longest pause between two forced releases, in milliseconds.
const PAUSE: (u64, u64) = (2_000, 8_000);
/// How long a request to evict may be on its way when the operator was told that it failed.
const LATE: Duration = Duration::from_secs(3);

/// One forced release in this many is that of a slot.
const OF_SLOTS: u64 = 3;

/// Forces releases until it is stopped.
pub(super) async fn operate(
    shared: Arc<Shared>,
    mut dice: Dice,
    first_attempt: u64,
    mut stopped: watch::Receiver<bool>,
) {
    for attempt in first_attempt.. {
        let pause = Duration::from_millis(PAUSE.0 + dice.roll(PAUSE.1 - PAUSE.0));
        if timeout(pause, stopped.wait_for(|stopped| *stopped)).await.is_ok() {
            return;
        }
        let resource = if dice.roll(OF_SLOTS) == 0 {
            let slots = slots();
            slots[dice.index(slots.len())].clone()
        } else {
            resource(QUICK_RESOURCE + 1 + dice.index(RESOURCES - 1))
        };
        let journal = &shared.journal;
        journal.write(Event::Forcing { attempt, resource: resource.clone() });
        match shared.locks.force_release(&resource).await {
            Ok(forced) => {
                let (token, evicted) = (forced.token.get(), forced.evicted.len());
                journal.write(Event::Forced { attempt, resource: resource.clone(), token, evicted });
                let name = resource.clone();
                if let Ok(Some(_)) = shared.transaction(move |ledger| ledger.read(&name, token)).await {
                    journal.write(Event::Claimed { attempt, resource, token });
                }
            }
            Err(error) => journal.write(Event::NotForced { attempt, resource, kind: kind(&error).to_owned() }),
        }
    }
}

/// The forced releases in the history of one process.
pub(super) fn evictions(history: &[Record]) -> Vec<Eviction> {
    let mut evictions: Vec<(u64, Eviction)> = Vec::new();
    for Record { at, event } in history {
        match event {
            Event::Forcing { attempt, resource } => {
                let (resource, began) = (resource.clone(), *at);
                // Until it is known, or for ever if the process is killed before.
                evictions.push((*attempt, Eviction { resource, token: None, began, ended: Moment::MAX }));
            }
            Event::Forced { attempt, token, .. } => end(&mut evictions, *attempt, Some(*token), *at),
            Event::NotForced { attempt, .. } => end(&mut evictions, *attempt, None, at.plus(LATE)),
            _ => {}
        }
    }
    let last = history.last().map_or(Moment(0), |last| last.at).plus(LATE);
    let over = |(_, eviction): (u64, Eviction)| Eviction { ended: eviction.ended.min(last), ..eviction };
    evictions.into_iter().map(over).collect()
}

fn end(evictions: &mut [(u64, Eviction)], attempt: u64, token: Option<u64>, ended: Moment) {
    if let Some((_, eviction)) = evictions.iter_mut().find(|(number, _)| *number == attempt) {
        (eviction.token, eviction.ended) = (token, ended);
    }
}
