//! Delegations between the services: one that holds a lock leaves the credential in the ledger, and one of the others adopts the lock,
//! works under it, and answers there.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Kind;
use lock_core::delegation::{AdoptError, Expected};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::MAX_TTL;
use super::history::Event;
use super::holding::Holding;
use super::service::Shared;
use lock_support::Dice;

/// How often both look into the ledger.
const POLL: Duration = Duration::from_millis(5);
/// For how long a delegation can be adopted.
const EXPIRES_IN: Duration = MAX_TTL;
/// How long the holder waits for the answer, beside the work. Shorter: then it goes on, and the other service may still be at work.
const PATIENCE: Duration = Duration::from_millis(400);
/// One answer in this many is lost; and one delegation in this many is adopted a second time.
const LOST: u64 = 8;
const REPLAYED: u64 = 40;

/// Delegates the work, and waits for the answer.
pub(super) async fn delegate(holding: &mut Holding<'_>, work: Duration) {
    let Ok(delegation) = holding.lease().delegate().expires_in(EXPIRES_IN).create() else { return };
    let (shared, credential) = (holding.shared(), delegation.as_str().to_owned());
    holding.record(|attempt, resource| Event::Delegated { attempt, resource });
    let service = shared.service;
    let answer = async {
        let offered = shared.transaction(move |ledger| ledger.delegate(service, &credential)).await;
        let (id, until) = (offered.map_err(drop)?, Instant::now() + work + PATIENCE);
        while Instant::now() < until {
            if shared.transaction(move |ledger| ledger.is_answered(id)).await.map_err(drop)? {
                return Ok(());
            }
            holding.sleep(POLL).await;
        }
        Err(())
    };
    if delegation.around(answer).await.is_ok() {
        holding.record(|attempt, resource| Event::Answered { attempt, resource });
    }
}

/// Adopts what other services delegate, until it is stopped.
pub(super) async fn adopt(shared: Arc<Shared>, mut dice: Dice, first_attempt: u64, stopped: watch::Receiver<bool>) {
    let service = shared.service;
    let mut attempt = first_attempt;
    while !*stopped.borrow() {
        if let Ok(Some((id, credential))) = shared.transaction(move |ledger| ledger.take_delegation(service)).await {
            attempt += 1;
            if work_under(&shared, &mut dice, attempt, &credential).await && dice.roll(LOST) > 0 {
                _ = shared.transaction(move |ledger| ledger.answer(id)).await;
            }
            if dice.roll(REPLAYED) == 0 {
                sleep(Duration::from_millis(dice.roll(50))).await;
                attempt += 1;
                replay(&shared, attempt, &credential).await;
            }
        }
        sleep(POLL).await;
    }
}

/// Works under a lock that another service delegated. False if it could not.
async fn work_under(shared: &Arc<Shared>, dice: &mut Dice, attempt: u64, credential: &str) -> bool {
    shared.journal.write(Event::Adopting { attempt });
    let adopted = match shared.locks.adopt_expected(credential, Expected::default()).await {
        Ok(adopted) => adopted,
        Err(error) => {
            shared.journal.write(Event::NotAdopted { attempt, kind: kind(&error).to_owned() });
            return false;
        }
    };
    let mut holding = Holding::adopted(shared, adopted.lease(), attempt);
    let work = Duration::from_millis(if dice.roll(8) == 0 { dice.roll(600) } else { dice.roll(20) });
    if adopted.kind() == Kind::Read {
        holding.look(work).await;
    } else {
        holding.update(work, dice.roll(3) > 0).await;
    }
    holding.record(|attempt, resource| Event::Releasing { attempt, resource });
    drop(adopted);
    true
}

/// Adopts a lock a second time, and does nothing under it: the holder may have been answered, and need not wait.
async fn replay(shared: &Arc<Shared>, attempt: u64, credential: &str) {
    shared.journal.write(Event::Adopting { attempt });
    match shared.locks.adopt_expected(credential, Expected::default()).await {
        Ok(adopted) => {
            let (resource, token) = (adopted.resource().to_owned(), adopted.token().get());
            shared.journal.write(Event::Replayed { attempt, resource, token });
        }
        Err(error) => shared.journal.write(Event::NotAdopted { attempt, kind: kind(&error).to_owned() }),
    }
}

fn kind(error: &AdoptError) -> &'static str {
    match error {
        AdoptError::Refused { .. } => "refused",
        AdoptError::Expired { .. } => "expired",
        AdoptError::NoQuorum { .. } => "no_quorum",
        AdoptError::ShuttingDown { .. } => "shutting_down",
        _ => "invalid",
    }
}
