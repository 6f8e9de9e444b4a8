//! Forced releases at agreed moments: one service takes a lock from another one and locks it, while callers in the former holder's
//! process ask for it all the time: readers that could join the hold, and writers to whom it could be handed over. None of them may get
//! it from the evicted holder beside the successor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::history::Event;
use super::holding::Holding;
use super::service::Shared;
use super::worker::kind;
use super::{MAX_TTL, SERVICES};
use lock_history::Moment;

/// The time between two of them, each at a lock of its own.
const PERIOD: Duration = Duration::from_millis(500);
/// How long before that moment the lock is held.
const BEFORE: Duration = Duration::from_millis(60);
/// How long after it others ask for the lock, and how often.
const AFTER: Duration = Duration::from_millis(120);
const EVERY: Duration = Duration::from_millis(4);
/// How long the writers wait, and how many there are. Each works for a moment, and hands the lock to the next.
const WAIT: Duration = Duration::from_millis(200);
const WRITERS: u64 = 6;
const WORK: Duration = Duration::from_millis(8);
/// Above the ids of all other attempts; how many there are for each lock, and which one is that of the forced release.
const FIRST_ATTEMPT: u64 = 1 << 42;
const ATTEMPTS: u64 = 1_000;
const FORCE: u64 = ATTEMPTS - 1;

/// Takes part in each of them until it is stopped.
pub(super) async fn succeed_each_other(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let period = u64::try_from(PERIOD.as_micros()).unwrap();
    let services = SERVICES as u64;
    let mut tasks = JoinSet::new();
    while !*stopped.borrow() {
        let number = Moment::now().plus(BEFORE).0 / period + 1;
        let one = One { shared: Arc::clone(&shared), number, at: Moment(number * period) };
        sleep(one.at.since(Moment::now().plus(BEFORE))).await;
        // The services take turns.
        match (shared.service as u64 + number) % services {
            0 => _ = tasks.spawn(one.evict()),
            1 if number.is_multiple_of(2) => _ = tasks.spawn(one.read()),
            1 => (0..WRITERS).for_each(|writer| _ = tasks.spawn(one.clone().write(writer))),
            _ => {}
        }
        while tasks.try_join_next().is_some() {}
        _ = timeout(BEFORE, stopped.wait_for(|stopped| *stopped)).await;
    }
    tasks.join_all().await;
}

/// One forced release.
#[derive(Clone)]
struct One {
    shared: Arc<Shared>,
    number: u64,
    at: Moment,
}

impl One {
    fn resource(&self) -> String {
        format!("succession-{}", self.number)
    }

    fn attempt(&self, number: u64) -> u64 {
        FIRST_ATTEMPT + self.number * ATTEMPTS + number
    }

    /// Takes the lock from its holder, and locks it.
    async fn evict(self) {
        let (attempt, resource, journal) = (self.attempt(FORCE), self.resource(), &self.shared.journal);
        sleep(self.at.since(Moment::now())).await;
        journal.write(Event::Forcing { attempt, resource: resource.clone() });
        match self.shared.locks.force_release(&resource).await {
            Ok(forced) => {
                let (token, evicted) = (forced.token.get(), forced.evicted.len());
                journal.write(Event::Forced { attempt, resource, token, evicted });
                self.acquire(0, false, WAIT, AFTER).await;
            }
            Err(error) => journal.write(Event::NotForced { attempt, resource, kind: kind(&error).to_owned() }),
        }
    }

    /// Reads from before that moment on, and begins to read again and again beside that.
    async fn read(self) {
        let mut readers = JoinSet::new();
        let until = self.at.plus(AFTER);
        let held = until.since(Moment::now());
        readers.spawn(self.clone().acquired(0, true, Duration::ZERO, held));
        for number in 1.. {
            sleep(EVERY).await;
            if Moment::now() >= until {
                break;
            }
            readers.spawn(self.clone().acquired(number, true, Duration::ZERO, WORK));
        }
        readers.join_all().await;
    }

    /// Writes, and waits for that while others of this process do.
    async fn write(self, writer: u64) {
        // The first ones are done before that moment.
        sleep(self.at.since(Moment::now()) / 2).await;
        self.acquire(writer, false, WAIT, WORK * 2).await;
    }

    async fn acquired(self, number: u64, reads: bool, wait: Duration, held: Duration) {
        self.acquire(number, reads, wait, held).await;
    }

    /// Acquires the lock, holds it for this long, and releases it.
    async fn acquire(&self, number: u64, reads: bool, wait: Duration, held: Duration) {
        let (attempt, resource, journal) = (self.attempt(number), self.resource(), &self.shared.journal);
        journal.write(Event::Attempt { attempt, resource: resource.clone(), wait, reads });
        let locks = &self.shared.locks;
        let request = if reads { locks.read(&resource) } else { locks.lock(&resource) };
        match request.ttl(MAX_TTL).wait(wait).acquire().await {
            Ok(guard) => {
                let mut holding = Holding::granted(&self.shared, guard.lease(), attempt);
                holding.sleep(held).await;
                holding.release(guard).await;
            }
            Err(error) => journal.write(Event::Rejected { attempt, resource, kind: kind(&error).to_owned() }),
        }
    }
}
