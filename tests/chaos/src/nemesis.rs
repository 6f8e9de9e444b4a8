//! Who hurts, and sees to it that what was hurt recovers.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::SERVICES;
use super::budget::{all_deaf, allows, majority_away};
use super::fault::{Deck, Fault, Kind};
use super::healthy::{DEAF, QUIET};
use super::history::Event;
use super::world::World;
use lock_support::Dice;

/// How often it looks around.
const TICK: Duration = Duration::from_millis(10);
/// The pauses between two faults, in milliseconds: from, to.
const PAUSE: (u64, u64) = (20, 220);
/// How long it waits for a service to hold a lock.
const AMBUSH: Duration = Duration::from_millis(400);
/// How long what was hurt may take to recover, on a machine that has much else to do.
const RECOVERY: Duration = Duration::from_secs(30);
/// How long a majority is away: longer than any lock lives.
const OUTAGE: Duration = Duration::from_millis(1_800);
/// Within this time, each resource must have been locked and written in a quiet phase.
const PROGRESS: Duration = Duration::from_secs(20);

pub(super) struct Nemesis<'a, 'b> {
    pub(super) world: &'b mut World<'a>,
    pub(super) dice: Dice,
    deck: Deck,
    lasting: Vec<Lasting>,
    /// Milliseconds until every resource had made progress, for each quiet phase.
    pub(super) progress: Vec<u128>,
}

struct Lasting {
    fault: Fault,
    until: Instant,
    /// Ended, but the server does not vote yet.
    recovering: bool,
}

impl<'a, 'b> Nemesis<'a, 'b> {
    pub(super) fn new(world: &'b mut World<'a>, seed: u64) -> Self {
        Self { world, dice: Dice::new(seed), deck: Deck::default(), lasting: Vec::new(), progress: Vec::new() }
    }

    /// Waits until all servers vote: what holds for a minority that forgets holds from then on.
    pub(super) async fn first_start(&mut self) {
        self.phase("first start");
        let began = Instant::now();
        for server in 0..self.world.servers.len() {
            while !self.world.votes(server).await {
                if began.elapsed() > RECOVERY {
                    self.world.troubles.push(format!("server {server} did not join the set"));
                    break;
                }
                sleep(TICK).await;
            }
        }
    }

    /// Hurts what may be hurt, for so long.
    pub(super) async fn rage(&mut self, length: Duration) {
        self.phase("faults");
        let (began, mut next) = (Instant::now(), Instant::now());
        let mut kind = self.deck.draw(&mut self.dice);
        while began.elapsed() < length {
            if Instant::now() >= next {
                let mut fault = Fault::draw(kind, &mut self.dice);
                // If this can not be hurt so now, something else can next time.
                if self.may(&fault) {
                    if matches!(fault.kind, Kind::KillService | Kind::StopService) {
                        fault = self.lie_in_wait(fault).await;
                    }
                    self.begin(fault).await;
                    kind = self.deck.draw(&mut self.dice);
                    next = Instant::now() + Duration::from_millis(PAUSE.0 + self.dice.roll(PAUSE.1 - PAUSE.0));
                }
            }
            self.tend().await;
            sleep(TICK).await;
        }
    }

    /// Waits until the service holds a lock, or another one does that can be hurt instead, but not for long; and only three times
    /// of four, so that they are met at other work, too.
    async fn lie_in_wait(&mut self, fault: Fault) -> Fault {
        let (waits, began) = (self.dice.roll(4) > 0, Instant::now());
        while waits && began.elapsed() < AMBUSH {
            let services = (0..SERVICES).map(|more| fault.service.map(|service| (service + more) % SERVICES));
            let faults = services.map(|service| Fault { service, ..fault });
            let mut holding = faults.filter(|fault| fault.service.is_some_and(|service| self.world.holds(service)));
            if let Some(met) = holding.find(|fault| self.may(fault)) {
                return met;
            }
            sleep(Duration::from_millis(1)).await;
        }
        fault
    }

    fn may(&self, fault: &Fault) -> bool {
        allows(self.lasting.iter().map(|lasting| &lasting.fault), fault)
    }

    /// Takes a majority away for a while, without loss of memory.
    pub(super) async fn outage(&mut self) {
        self.phase("majority away");
        let (stop, first) = (self.dice.roll(2) == 0, self.dice.index(self.world.servers.len()));
        for fault in majority_away(stop, first, OUTAGE) {
            self.begin(fault).await;
        }
        sleep(OUTAGE).await;
    }

    /// Makes all services deaf for so long: only their timers tell them when to try again.
    pub(super) async fn deaf(&mut self, length: Duration) {
        self.phase(DEAF);
        for fault in all_deaf(&mut self.dice, length) {
            self.begin(fault).await;
        }
        sleep(length).await;
    }

    /// Ends all faults and waits until everything has recovered.
    pub(super) async fn recover(&mut self) {
        self.phase("recovery");
        let began = Instant::now();
        for lasting in &mut self.lasting {
            lasting.until = lasting.until.min(began);
        }
        while !self.lasting.is_empty() {
            self.tend().await;
            if began.elapsed() > RECOVERY {
                let left: Vec<_> = self.lasting.drain(..).map(|lasting| lasting.fault).collect();
                self.world.troubles.push(format!("after {RECOVERY:?} not recovered from {left:?}"));
            }
            sleep(TICK).await;
        }
    }

    /// Leaves everything alone for so long, and until every resource was locked and written.
    pub(super) async fn quiet(&mut self, length: Duration) {
        self.phase(QUIET);
        let (began, before) = (Instant::now(), self.world.written());
        let progressed = |now: Vec<i64>| now.iter().zip(&before).all(|(now, before)| now > before);
        while !progressed(self.world.written()) {
            if began.elapsed() > PROGRESS {
                let trouble = format!("no progress in {PROGRESS:?} without faults: {before:?} writes before");
                self.world.troubles.push(trouble);
                break;
            }
            sleep(TICK).await;
        }
        self.progress.push(began.elapsed().as_millis());
        sleep(length.saturating_sub(began.elapsed())).await;
    }

    async fn begin(&mut self, fault: Fault) {
        self.world.hurt(&fault).await;
        if fault.kind.forgets() || !fault.lasts.is_zero() {
            self.lasting.push(Lasting { fault, until: Instant::now() + fault.lasts, recovering: false });
        }
    }

    /// Ends the faults whose time is over, and looks who has recovered.
    async fn tend(&mut self) {
        let mut still = Vec::new();
        for mut lasting in std::mem::take(&mut self.lasting) {
            if !lasting.recovering && Instant::now() >= lasting.until {
                self.world.heal(&lasting.fault).await;
                lasting.recovering = true;
            }
            let over = lasting.recovering && self.is_well(&lasting.fault).await;
            if !over {
                still.push(lasting);
            }
        }
        self.lasting = still;
    }

    /// Whether nothing is left of a fault that was ended.
    async fn is_well(&self, fault: &Fault) -> bool {
        match (fault.server, fault.service) {
            (Some(server), None) => self.world.votes(server).await,
            _ => true,
        }
    }

    /// Goes over to something else.
    pub(super) fn phase(&mut self, name: &str) {
        eprintln!("chaos: {name}; {} writes", self.world.written().iter().sum::<i64>());
        self.world.journal.write(Event::Phase { name: name.to_owned() });
    }
}
