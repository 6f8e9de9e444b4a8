//! What the nemesis acts on: the masters, the services, and the observer that tells which masters vote.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{MutexGuard, Semaphore};
use tokio::time::{Instant, sleep};

use super::super::history::{Event, Journal};
use super::super::ledger::Ledger;
use super::super::{Plan, RESOURCES, SERVERS, protected, resource};
use super::fleet::Fleet;
use super::master::Master;
use super::observer::Observer;

/// How often it looks whether a master votes.
const TICK: Duration = Duration::from_millis(10);
/// How long a master may take until it votes: more than its quarantine, on a busy machine.
const RECOVERY: Duration = Duration::from_secs(30);

pub(super) struct Arena<'a> {
    pub(super) journal: Arc<Journal>,
    pub(super) ledger: Ledger,
    /// One for each seat. Who changes one holds its mutex, until it votes again.
    pub(super) masters: Vec<tokio::sync::Mutex<Master>>,
    /// How many more masters may be kept from voting: a majority always votes. Each service counts as many: of the old
    /// list and of the new one, the same seat is missing.
    pub(super) spare: Semaphore,
    /// The newest list.
    addresses: Mutex<Vec<String>>,
    pub(super) fleet: Fleet<'a>,
    pub(super) observer: Observer,
}

impl<'a> Arena<'a> {
    /// Starts everything.
    pub(super) async fn start(plan: &'a Plan) -> Self {
        let journal = Arc::new(Journal::create(&plan.directory.join("nemesis.jsonl")).expect("the directory is new"));
        let ledger = Ledger::open(&plan.directory.join("ledger.sqlite"), true).unwrap();
        ledger.add_counters(protected().iter()).unwrap();
        let masters = join_all((0..SERVERS).map(|_| Master::blank())).await;
        let addresses: Vec<String> = masters.iter().map(|master| master.server.url()).collect();
        let (fleet, observer) = (Fleet::start(plan, &addresses), Observer::new(plan, &addresses));
        let masters = masters.into_iter().map(tokio::sync::Mutex::new).collect();
        let spare = Semaphore::new((SERVERS - 1) / 2);
        Self { journal, ledger, masters, spare, addresses: Mutex::new(addresses), fleet, observer }
    }

    /// The newest list of masters.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.addresses.lock().unwrap().clone()
    }

    /// Puts another master into the newest list.
    pub(super) fn list(&self, seat: usize, master: &Master) {
        self.addresses.lock().unwrap()[seat] = master.server.url();
    }

    /// The master of a seat, unless something is being done to it.
    pub(super) fn try_take(&self, seat: usize) -> Option<MutexGuard<'_, Master>> {
        self.masters[seat].try_lock().ok()
    }

    /// Waits until a master is a member that votes.
    pub(super) async fn until_it_votes(&self, seat: usize, after: &str) {
        if !self.votes_within(seat, RECOVERY).await {
            self.problem(format!("the master of seat {seat} does not vote {RECOVERY:?} after {after}"));
        }
    }

    /// Waits until a master votes, but not for longer than this.
    pub(super) async fn votes_within(&self, seat: usize, limit: Duration) -> bool {
        let began = Instant::now();
        while !self.observer.votes().await[seat] {
            if began.elapsed() > limit {
                return false;
            }
            sleep(TICK).await;
        }
        true
    }

    pub(super) async fn until_all_vote(&self) {
        for seat in 0..SERVERS {
            self.until_it_votes(seat, "everything was well again").await;
        }
    }

    /// How many writes there are.
    pub(super) fn written(&self) -> i64 {
        (0..RESOURCES).map(|index| self.ledger.written(&resource(index)).unwrap()).sum()
    }

    pub(super) fn phase(&self, name: &str) {
        eprintln!("chaos: {name}; {} writes", self.written());
        self.journal.write(Event::Phase { name: name.to_owned() });
    }

    pub(super) fn begin(&self, kind: &str, seat: usize) {
        self.journal.write(Event::Fault { kind: kind.to_owned(), server: Some(seat), service: None, generation: None });
    }

    pub(super) fn end(&self, kind: &str, seat: usize) {
        self.journal.write(Event::Healed { kind: kind.to_owned(), server: Some(seat), service: None });
    }

    /// A violation that is not in the histories.
    pub(super) fn problem(&self, problem: String) {
        self.fleet.problems.lock().unwrap().push(problem);
    }
}
