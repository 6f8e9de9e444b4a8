use std::time::Duration;

use super::chance::Chance;
use super::redis::{Flaw, NodeClock};

/// The prefix of all keys.
pub(super) const PREFIX: &str = "sim:";
/// The longest time to live of any lock. Short, so that a server's quarantine ends within the run.
pub(super) const MAX_TTL: Duration = Duration::from_secs(1);
/// How long everything is left in peace after the last fault, before the clients take each lock a last time. Longer than a
/// stalled connection, the longest backoff, a quarantine and a time to live.
pub(super) const PEACE: Duration = Duration::from_secs(5);
/// How long clients may take for that.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What is allowed to happen, and so what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// All that the promises cover: links, crashes, restarts, and at most a minority of servers that have forgotten.
    Promised,
    /// The clocks of servers jump, too. Two leases may be valid at once; the tokens must hold.
    ClockJumps,
    /// A majority of servers may forget, and at once. Only what a fenced resource makes of the tokens is checked.
    Amnesia,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Promised, Self::ClockJumps, Self::Amnesia];

    /// What commands call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Promised => "promised",
            Self::ClockJumps => "clock-jumps",
            Self::Amnesia => "amnesia",
        }
    }
}

/// The whole of a run, but for what happens in it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) scenario: Scenario,
    pub(super) servers: Vec<ServerPlan>,
    pub(super) clients: usize,
    /// How many tasks of each client want locks.
    pub(super) workers: usize,
    pub(super) resources: usize,
    pub(super) flaw: Option<Flaw>,
    /// Whether servers forget in this run.
    pub(super) forgetful: bool,
    /// How long a message takes at most when nothing is wrong, in milliseconds.
    pub(super) latency: u64,
    /// How long there are faults.
    pub(super) storm: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct ServerPlan {
    pub(super) clock: NodeClock,
    pub(super) durable: bool,
}

impl Plan {
    pub(super) fn new(seed: u64, scenario: Scenario, flaw: Option<Flaw>) -> Self {
        let mut chance = Chance::new(seed, &[0]);
        let forgetful = scenario == Scenario::Amnesia || chance.percent(60);
        let server = |chance: &mut Chance| ServerPlan {
            clock: NodeClock { offset: chance.around(clock_error(scenario, forgetful)), gain: chance.around(9_000) },
            durable: chance.percent(15),
        };
        let servers = chance.pick(&[3, 3, 3, 5]);
        Self {
            seed,
            scenario,
            servers: (0..servers).map(|_| server(&mut chance)).collect(),
            clients: chance.pick(&[2, 3, 3, 4]),
            workers: chance.pick(&[1, 2, 3]),
            resources: chance.pick(&[1, 1, 2]),
            flaw,
            forgetful,
            latency: chance.pick(&[2, 3, 5, 10]),
            storm: chance.millis(5_000, 8_000),
        }
    }

    pub(super) fn server_name(server: usize) -> String {
        format!("redis-{server}")
    }

    pub(super) fn client_name(client: usize) -> String {
        format!("client-{client}")
    }

    pub(super) fn resource_name(resource: usize) -> String {
        format!("resource-{resource}")
    }
}

/// How wrong clocks may stand, in microseconds. Tokens do not rest on clocks while fencing numbers survive, so an hour is
/// nothing. Where servers forget, the clock is what keeps tokens increasing: it has to be right to well within a quarantine.
fn clock_error(scenario: Scenario, forgetful: bool) -> i64 {
    match scenario {
        Scenario::Amnesia => 500,
        _ if forgetful => 100_000,
        _ => 3_600_000_000,
    }
}
