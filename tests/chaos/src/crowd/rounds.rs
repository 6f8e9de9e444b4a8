use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::SERVICES;
use super::super::budget::minority;
use super::super::fault::{Fault, Kind};
use super::super::history::Standing;
use super::super::nemesis::Nemesis;
use super::{CROWD, CROWD_PHASE, MEMBERS};
use lock_history::Moment;

/// How long the faults of a round last.
const ROUND: Duration = Duration::from_millis(900);
/// Within this time, a process that was started has its connections.
const CONNECTED: Duration = Duration::from_millis(700);
/// A holder that has held the lock for this long will do so for a while, and nobody's attempt is under way any more. A caller that is
/// hit then leaves no key behind.
pub(super) const ESTABLISHED: Duration = Duration::from_millis(40);
/// How long it looks for such a holder, and how often.
const LOOK: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(10));
/// The most that are hit in one round. At least two others stay in line.
const MAX_HIT: usize = CROWD - 3;

/// What is done to those in line.
#[derive(Clone, Copy)]
enum Strike {
    Kill,
    Freeze,
    Both,
}

/// What else is wrong meanwhile.
#[derive(Clone, Copy)]
enum Trouble {
    None,
    /// If a majority is left.
    MasterLost,
    /// To all masters, of the first in line that is not hit; on Redis, that is all of the connection, to a minority.
    WakeupsCut,
    /// To a minority of the masters, of the first in line that is not hit.
    RequestsCut,
    /// Both kinds of connections, to a minority.
    LinksCut,
}

const ROUNDS: [(Strike, Trouble); 6] = [
    (Strike::Freeze, Trouble::None),
    (Strike::Kill, Trouble::MasterLost),
    (Strike::Freeze, Trouble::WakeupsCut),
    (Strike::Kill, Trouble::RequestsCut),
    (Strike::Both, Trouble::LinksCut),
    (Strike::Kill, Trouble::None),
];

impl Nemesis<'_, '_> {
    /// Lets the crowd work instead of the ordinary services, and hits it in several rounds.
    pub(in super::super) async fn crowd(&mut self) {
        self.phase("crowd comes");
        self.world.replace_services(0..SERVICES, MEMBERS).await;
        // A process that is killed before the masters can wake it counts as one that polls, and they cannot know that it is gone.
        sleep(CONNECTED).await;
        self.phase(CROWD_PHASE);
        let first = self.dice.index(ROUNDS.len());
        for round in 0..ROUNDS.len() {
            let (strike, trouble) = ROUNDS[(first + round) % ROUNDS.len()];
            self.round(strike, trouble).await;
        }
        self.phase("crowd leaves");
        self.world.replace_services(MEMBERS, 0..SERVICES).await;
    }

    async fn round(&mut self, strike: Strike, trouble: Trouble) {
        let mut line = self.line_behind_a_holder().await;
        let count = (1 + self.dice.index(MAX_HIT)).min(line.len().saturating_sub(2));
        // From the head of the line, or anywhere in it.
        if matches!(strike, Strike::Kill) && self.dice.roll(2) == 0 {
            let behind = self.dice.index(line.len().max(1));
            line.rotate_left(behind);
        }
        let (hit, others) = line.split_at(count);
        for fault in self.trouble(trouble, others.first().copied()) {
            self.begin(fault).await;
        }
        for (position, service) in hit.iter().enumerate() {
            let kind = match strike {
                Strike::Kill => Kind::KillService,
                Strike::Freeze => Kind::StopService,
                Strike::Both => [Kind::KillService, Kind::StopService][position % 2],
            };
            self.begin(Fault { kind, server: None, service: Some(*service), duration: ROUND }).await;
        }
        sleep(ROUND).await;
        self.end_all_faults().await;
        sleep(CONNECTED).await;
    }

    /// Waits until one of the crowd holds the lock for a while. Returns those that wait meanwhile, the first in line first.
    async fn line_behind_a_holder(&self) -> Vec<usize> {
        let (began, established) = (Instant::now(), ESTABLISHED + self.world.plan.store.slack());
        while began.elapsed() < LOOK.0 {
            let (now, mut held, mut line) = (Moment::now(), false, Vec::new());
            for service in MEMBERS {
                match self.world.standing(service) {
                    Standing::Holds { since } => held |= now.since(since) > established,
                    Standing::Waits { since } => line.push((since, service)),
                    Standing::Neither => {}
                }
            }
            if held && line.len() + 1 == CROWD {
                line.sort_unstable();
                return line.into_iter().map(|(_, service)| service).collect();
            }
            sleep(LOOK.1).await;
        }
        Vec::new()
    }

    /// The faults besides those of the processes in line.
    fn trouble(&mut self, trouble: Trouble, service: Option<usize>) -> Vec<Fault> {
        let servers = self.world.servers.len();
        let first = self.dice.index(servers);
        let fault = |kind, server, service| Fault { kind, server, service, duration: ROUND };
        let minority = minority(self.world.plan.nodes());
        let links = |kind| (0..minority).map(|more| fault(kind, Some((first + more) % servers), service)).collect();
        match trouble {
            Trouble::None => Vec::new(),
            Trouble::MasterLost if minority == 0 => Vec::new(),
            Trouble::MasterLost => vec![fault(Kind::KillServer, Some(first), None)],
            _ if service.is_none() => Vec::new(),
            Trouble::WakeupsCut if self.world.plan.store.signs().is_empty() => Vec::new(),
            Trouble::WakeupsCut if self.world.plan.store.calls_between_replies() => links(Kind::CutRequests),
            Trouble::WakeupsCut => vec![fault(Kind::CutWakeups, None, service)],
            Trouble::RequestsCut => links(Kind::CutRequests),
            Trouble::LinksCut => links(Kind::CutLink),
        }
    }
}
