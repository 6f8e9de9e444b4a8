//! The nemesis injects faults, ends them, and waits until the system has recovered.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::SERVICES;
use super::budget::{allows, block_all_wakeups, majority_unavailable, minority};
use super::fault::{Deck, Fault, Kind};
use super::history::Event;
use super::windows::{NO_WAKEUPS, ONE_MUTE, ONE_UNCALLED, QUIET};
use super::world::World;
use lock_support::Dice;

/// How often it checks for work.
const TICK: Duration = Duration::from_millis(10);
/// The shortest and the longest pause between two faults, in milliseconds.
const PAUSE: (u64, u64) = (20, 220);
/// The shortest and the longest time for which a minority is cut off before another server forgets, in milliseconds.
const CUT_OFF: (u64, u64) = (200, 700);
/// How long it waits for a service that holds a lock.
const HOLDER_WAIT: Duration = Duration::from_millis(400);
/// How long recovery may take on a busy machine.
const RECOVERY: Duration = Duration::from_secs(30);
/// How long a majority is unavailable: longer than the time to live of any lock.
const OUTAGE: Duration = Duration::from_millis(1_800);
/// For how long all servers are stopped in an overload, and then run.
const STUTTER: (Duration, Duration) = (Duration::from_millis(80), Duration::from_millis(20));
/// Within this time, each resource must be locked and written in a quiet phase.
const PROGRESS_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Nemesis<'a, 'b> {
    pub(super) world: &'b mut World<'a>,
    pub(super) dice: Dice,
    deck: Deck,
    active_faults: Vec<ActiveFault>,
    /// Milliseconds until every resource was written, for each quiet phase.
    pub(super) progress: Vec<u128>,
}

struct ActiveFault {
    fault: Fault,
    until: Instant,
    /// The fault was ended, but the server does not vote again.
    recovering: bool,
}

impl<'a, 'b> Nemesis<'a, 'b> {
    pub(super) fn new(world: &'b mut World<'a>, seed: u64) -> Self {
        let deck = Deck::new(world.plan.store);
        Self { world, dice: Dice::new(seed), deck, active_faults: Vec::new(), progress: Vec::new() }
    }

    /// Waits until all servers vote. Only from then on may a minority lose its data. Then waits until every service was seen to hold a
    /// lock: one that is still connecting has no place in any queue.
    pub(super) async fn first_start(&mut self) {
        self.phase("first start");
        let began = Instant::now();
        for server in 0..self.world.servers.len() {
            while !self.world.servers[server].votes().await {
                if began.elapsed() > RECOVERY {
                    self.world.problems.push(format!("server {server} did not join the set"));
                    break;
                }
                sleep(TICK).await;
            }
        }
        let mut starting: Vec<_> = (0..SERVICES).collect();
        while !starting.is_empty() {
            starting.retain(|service| !self.world.holds(*service));
            if began.elapsed() > RECOVERY {
                self.world.problems.push(format!("services {starting:?} did not get a lock at the start"));
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Injects faults that the budget allows, for `length`; or, if that is zero, each fault once.
    pub(super) async fn inject_faults(&mut self, length: Duration) {
        self.phase("faults");
        let (began, mut next) = (Instant::now(), Instant::now());
        let mut kind = self.deck.draw(&mut self.dice);
        while began.elapsed() < length || length.is_zero() {
            if Instant::now() >= next {
                let mut fault = Fault::draw(kind, self.world.servers.len(), &mut self.dice);
                // If the budget does not allow it now, the next draw has another target.
                if self.is_allowed(&fault) {
                    if matches!(fault.kind, Kind::KillService | Kind::StopService) {
                        fault = self.target_a_holder(fault).await;
                    }
                    if fault.kind.may_go_unnoticed() {
                        self.cut_a_minority_off(&fault).await;
                    }
                    self.begin(fault).await;
                    if length.is_zero() && self.deck.was_dealt() {
                        break;
                    }
                    kind = self.deck.draw(&mut self.dice);
                    next = Instant::now() + Duration::from_millis(PAUSE.0 + self.dice.roll(PAUSE.1 - PAUSE.0));
                }
            }
            self.end_due_faults().await;
            sleep(TICK).await;
        }
    }

    /// Waits a short time until the service holds a lock, or another one that may be hit instead does. Only three times
    /// out of four, so that services are also hit at other work.
    async fn target_a_holder(&mut self, fault: Fault) -> Fault {
        let (waits, began) = (self.dice.roll(4) > 0, Instant::now());
        while waits && began.elapsed() < HOLDER_WAIT {
            let services = (0..SERVICES).map(|more| fault.service.map(|service| (service + more) % SERVICES));
            let faults = services.map(|service| Fault { service, ..fault });
            let mut holding = faults.filter(|fault| fault.service.is_some_and(|service| self.world.holds(service)));
            if let Some(holder) = holding.find(|fault| self.is_allowed(fault)) {
                return holder;
            }
            sleep(Duration::from_millis(1)).await;
        }
        fault
    }

    /// Loses what all services send to a minority of the servers, and lets it pass again: there are locks then that a bare majority has,
    /// with the server among it that is about to forget.
    async fn cut_a_minority_off(&mut self, before: &Fault) {
        let (servers, first) = (self.world.servers.len(), before.server.unwrap_or_default());
        let cut_off = (1..=minority(servers)).map(|more| (first + more) % servers);
        let duration = Duration::from_millis(CUT_OFF.0 + self.dice.roll(CUT_OFF.1 - CUT_OFF.0));
        let began = Instant::now();
        for (server, service) in cut_off.flat_map(|server| (0..SERVICES).map(move |service| (server, service))) {
            let fault = Fault { kind: Kind::LoseRequests, server: Some(server), service: Some(service), duration };
            if self.is_allowed(&fault) {
                self.begin(fault).await;
            }
        }
        sleep(duration.saturating_sub(began.elapsed())).await;
        self.end_due_faults().await;
    }

    fn is_allowed(&self, fault: &Fault) -> bool {
        let active = self.active_faults.iter().map(|active_fault| &active_fault.fault);
        allows(self.world.servers.len(), active, fault)
    }

    /// Makes a majority unavailable for a while, without loss of data.
    pub(super) async fn outage(&mut self) {
        self.phase("majority unavailable");
        let servers = self.world.servers.len();
        // A client that cannot reach some servers of an ensemble goes to the others.
        let is_ensemble = self.world.plan.nodes() < servers;
        let may_stop = self.world.plan.store.keeps_data_while_stopped();
        let (stop, first) = (self.dice.roll(2) == 0 || is_ensemble, self.dice.index(servers));
        let stop = stop && may_stop;
        for fault in majority_unavailable(servers, stop, first, OUTAGE) {
            self.begin(fault).await;
        }
        sleep(OUTAGE).await;
    }

    /// Stops all servers for most of the time, for `length`: all replies and wake-ups are late, and no server is away.
    pub(super) async fn overload(&mut self, length: Duration) {
        self.phase("overload");
        let stop = |server| Fault { kind: Kind::StopServer, server: Some(server), service: None, duration: STUTTER.0 };
        let (began, stops): (_, Vec<_>) = (Instant::now(), (0..self.world.servers.len()).map(stop).collect());
        while began.elapsed() < length {
            for fault in &stops {
                self.world.inject(fault).await;
            }
            sleep(STUTTER.0).await;
            for fault in &stops {
                self.world.heal(fault).await;
            }
            sleep(STUTTER.1).await;
        }
    }

    /// Keeps wake-ups from all services for `length`: only their timers make them try again.
    pub(super) async fn without_wakeups(&mut self, length: Duration) {
        self.phase(NO_WAKEUPS);
        for fault in block_all_wakeups(self.world.plan.store, &mut self.dice, length) {
            self.begin(fault).await;
        }
        sleep(length).await;
    }

    /// Loses the wake-ups of one service for `length`. Neither it nor the others may get less for that than their share.
    pub(super) async fn without_wakeups_for_one(&mut self, length: Duration) {
        self.hit_one(ONE_UNCALLED, Kind::LoseWakeups, length).await;
    }

    /// Takes the right to wake others up from one service for `length`.
    pub(super) async fn without_wakeups_from_one(&mut self, length: Duration) {
        self.hit_one(ONE_MUTE, Kind::DenyPublish, length).await;
    }

    async fn hit_one(&mut self, phase: &str, kind: Kind, duration: Duration) {
        self.phase(phase);
        let service = Some(self.dice.index(SERVICES));
        self.begin(Fault { kind, server: None, service, duration }).await;
        sleep(duration).await;
        self.end_all_faults().await;
    }

    /// Ends all faults and waits until everything has recovered.
    pub(super) async fn recover(&mut self) {
        self.phase("recovery");
        self.end_all_faults().await;
    }

    /// Ends all faults and waits until everything has recovered, in the present phase.
    pub(super) async fn end_all_faults(&mut self) {
        let began = Instant::now();
        for active_fault in &mut self.active_faults {
            active_fault.until = active_fault.until.min(began);
        }
        while !self.active_faults.is_empty() {
            self.end_due_faults().await;
            if began.elapsed() > RECOVERY {
                let left: Vec<_> = self.active_faults.drain(..).map(|active_fault| active_fault.fault).collect();
                self.world.problems.push(format!("not recovered after {RECOVERY:?} from {left:?}"));
            }
            sleep(TICK).await;
        }
    }

    /// Injects nothing for `length`, and longer until every resource was locked and written.
    pub(super) async fn quiet(&mut self, length: Duration) {
        self.phase(QUIET);
        let (began, before) = (Instant::now(), self.world.written());
        let progressed = |now: Vec<i64>| now.iter().zip(&before).all(|(now, before)| now > before);
        while !progressed(self.world.written()) {
            if began.elapsed() > PROGRESS_LIMIT {
                let problem = format!("no progress in {PROGRESS_LIMIT:?} without faults: {before:?} writes before");
                self.world.problems.push(problem);
                break;
            }
            sleep(TICK).await;
        }
        self.progress.push(began.elapsed().as_millis());
        sleep(length.saturating_sub(began.elapsed())).await;
    }

    pub(super) async fn begin(&mut self, fault: Fault) {
        self.world.inject(&fault).await;
        if fault.kind.forgets() || !fault.duration.is_zero() {
            self.active_faults.push(ActiveFault { fault, until: Instant::now() + fault.duration, recovering: false });
        }
    }

    /// Ends the faults whose time is over, and forgets those from which everything has recovered.
    async fn end_due_faults(&mut self) {
        let mut active = Vec::new();
        for mut active_fault in std::mem::take(&mut self.active_faults) {
            if !active_fault.recovering && Instant::now() >= active_fault.until {
                self.world.heal(&active_fault.fault).await;
                active_fault.recovering = true;
            }
            let over = active_fault.recovering && self.has_recovered(&active_fault.fault).await;
            if !over {
                active.push(active_fault);
            }
        }
        self.active_faults = active;
    }

    /// Whether a fault that was ended has no more effect.
    async fn has_recovered(&self, fault: &Fault) -> bool {
        match (fault.server, fault.service) {
            (Some(server), None) => self.world.servers[server].votes().await,
            _ => true,
        }
    }

    /// Begins a phase.
    pub(super) fn phase(&mut self, name: &str) {
        eprintln!("chaos: {name}; {} writes", self.world.written().iter().sum::<i64>());
        self.world.journal.write(Event::Phase { name: name.to_owned() });
    }
}
