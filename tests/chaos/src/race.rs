//! Races: at the same moment, all services try to lock the same name, a new one each time. Their votes cross on the
//! way to the masters, so that majorities are as narrow as they can be.
//!
//! A third of the time the winners hold what they won until it expires, and all try to get it meanwhile: one master
//! that forgot would be enough for a second holder. In between, steps of clocks have no narrow majority to fear.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::MAX_TTL;
use super::history::Event;
use super::service::Shared;
use super::worker::kind;
use lock_history::Moment;

/// The time between two races.
const PERIOD: Duration = Duration::from_millis(25);
/// How long the winner holds the lock, usually.
const HELD: Duration = Duration::from_millis(10);
/// How many races there are in a time to live. Of three such spans, the locks of the first are held until they expire.
const SPAN: u64 = 40;
/// One service in this many reads, and the others write.
const READS: u64 = 2;
/// Above the ids of all other attempts; and above those of the first attempts at a name.
const FIRST_ATTEMPT: u64 = 1 << 40;
const SECOND_ATTEMPT: u64 = 1 << 41;

/// Takes part in every race until it is stopped.
pub(super) async fn race(shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let period = u64::try_from(PERIOD.as_micros()).unwrap();
    while !*stopped.borrow() {
        let number = Moment::now().0 / period + 1;
        sleep(Moment(number * period).since(Moment::now())).await;
        try_to_win(&shared, FIRST_ATTEMPT + number, number).await;
        // Each service tries another one of the last races.
        let earlier = number - 1 - (number * 7 + shared.service as u64 * 13) % SPAN;
        if is_held_for_long(earlier) {
            try_to_win(&shared, SECOND_ATTEMPT + number, earlier).await;
        }
    }
}

fn is_held_for_long(number: u64) -> bool {
    (number / SPAN).is_multiple_of(3)
}

async fn try_to_win(shared: &Arc<Shared>, attempt: u64, number: u64) {
    let (resource, wait) = (format!("race-{number}"), Duration::ZERO);
    let journal = &shared.journal;
    let (locks, reads) = (&shared.locks, (number + shared.service as u64).is_multiple_of(READS));
    journal.write(Event::Attempt { attempt, resource: resource.clone(), wait, reads });
    let request = if reads { locks.read(&resource) } else { locks.lock(&resource) };
    match request.ttl(MAX_TTL).wait(wait).renew(false).acquire().await {
        Ok(guard) => {
            let lease = guard.lease();
            let (token, until) = (lease.token().get(), Moment::now().plus(lease.remaining()));
            journal.write(Event::Granted { attempt, resource: resource.clone(), token, until, reads });
            let held = if is_held_for_long(number) { lease.remaining() } else { HELD };
            let journal = Arc::clone(journal);
            // The shutdown of the manager waits for it.
            tokio::spawn(async move {
                sleep(held).await;
                journal.write(Event::Releasing { attempt, resource });
                drop(guard);
            });
        }
        Err(error) => journal.write(Event::Rejected { attempt, resource, kind: kind(&error).to_owned() }),
    }
}
