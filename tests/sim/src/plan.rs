use std::time::Duration;

use super::rng::Rng;
use lock_fake_redis::{Flaw, NodeClock};

/// The prefix of all keys, and what becomes of it in a cluster: a hash tag.
pub(super) const PREFIX: &str = "sim:";
const TAG: &str = "{sim:#0}";
/// The longest ttl of any lock. Short, so that a server's quarantine ends within the run.
pub(super) const MAX_TTL: Duration = Duration::from_secs(1);
/// How long clients and servers may recover after the last fault, before each client acquires each lock once more. Longer than
/// a stalled connection, the longest backoff, a quarantine and a ttl together.
pub(super) const RECOVERY: Duration = Duration::from_secs(5);
/// How long the last acquisition of a lock may take.
pub(super) const FINAL_WAIT: Duration = Duration::from_secs(10);

/// The resource that also has permits, and how many. It is locked, too, and neither knows of the other.
pub(super) const PERMITS: (usize, u32) = (0, 2);

/// How long addresses lead elsewhere and back: long enough for several quarantines.
const ELSEWHERE: Duration = Duration::from_secs(16);

/// How many more clients there are in a run with a crowd.
const CROWD: usize = 8;

/// Which faults may occur, and therefore what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The faults that the promises cover: of links and clients, crashes and restarts, wrong clocks, and a minority of masters
    /// that lose their memory or are replaced.
    Promised,
    /// The clocks of servers jump, too. Two leases may be valid at once, but tokens must be unique and ordered.
    ClockJumps,
    /// A majority of servers may lose their memory, even at once. Only the updates of a fenced resource are checked.
    Amnesia,
    /// All addresses lead to other servers and back, again and again, and both sets of servers keep their data.
    Elsewhere,
    /// Each master is a Redis Cluster, in which locks move from server to server: key by key, and by failovers after which the old
    /// primary goes on for a while.
    Clusters,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 5] = [Self::Promised, Self::ClockJumps, Self::Amnesia, Self::Elsewhere, Self::Clusters];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Promised => "promised",
            Self::ClockJumps => "clock-jumps",
            Self::Amnesia => "amnesia",
            Self::Elsewhere => "elsewhere",
            Self::Clusters => "clusters",
        }
    }
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) scenario: Scenario,
    /// How many masters a set has: the first of the servers. The others are spare.
    pub(super) masters: usize,
    pub(super) servers: Vec<ServerPlan>,
    pub(super) clients: usize,
    /// How many tasks of each client take locks.
    pub(super) workers: usize,
    pub(super) resources: usize,
    pub(super) flaw: Option<Flaw>,
    /// Whether the servers insist that scripts declare their keys.
    pub(super) insists: bool,
    /// Whether servers may lose their memory in this run.
    pub(super) forgetful: bool,
    /// The largest latency of a message without a fault, in milliseconds.
    pub(super) latency: u64,
    /// How long faults are injected.
    pub(super) fault_phase: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct ServerPlan {
    pub(super) clock: NodeClock,
    pub(super) durable: bool,
    /// Whether its clock steps forward and back, by up to hours.
    pub(super) steps: bool,
    /// When it starts for the first time. `None` for a spare server, which starts when it is needed.
    pub(super) starts: Option<Duration>,
}

impl Plan {
    pub(super) fn new(seed: u64, scenario: Scenario, flaw: Option<Flaw>) -> Self {
        let mut rng = Rng::new(seed, &[0]);
        let forgetful = rng.percent(60) || scenario == Scenario::Amnesia || flaw.is_some();
        let masters = rng.pick(&[3, 3, 3, 5]);
        let masters = if scenario == Scenario::Clusters { 3 } else { masters };
        // One: two nodes have to say that a quarantine is over.
        let stepping = usize::from(scenario == Scenario::Promised && rng.percent(50));
        let spares = if rng.percent(50) { 3 } else { 0 };
        let spares = match scenario {
            Scenario::Elsewhere => masters,
            // Two more servers of each cluster.
            Scenario::Clusters => 2 * masters,
            _ => spares,
        };
        // A stream of its own: the other seeds stay as they are.
        let crowd = Rng::new(seed, &[3]).percent(10);
        let insists = flaw.is_none() && Rng::new(seed, &[9]).percent(20);
        let server = |number: usize| ServerPlan {
            clock: NodeClock { offset: rng.within(clock_error(scenario)), gain: rng.within(9_000) },
            durable: rng.percent(15),
            steps: number < stepping,
            starts: (number < masters || matches!(scenario, Scenario::Elsewhere | Scenario::Clusters))
                .then(|| if rng.percent(5) { rng.millis(0, 1_000) } else { Duration::ZERO }),
        };
        let mut servers: Vec<ServerPlan> = (0..masters + spares).map(server).collect();
        if scenario == Scenario::Clusters {
            // Keys that come from another server expire when they would have there.
            for number in masters..servers.len() {
                servers[number].clock = servers[number % masters].clock;
            }
        }
        Self {
            seed,
            scenario,
            masters,
            servers,
            clients: rng.pick(&[2, 3, 3, 4]) + if crowd { CROWD } else { 0 },
            workers: rng.pick(&[1, 2, 3]),
            resources: rng.pick(&[1, 2, 2]),
            flaw,
            insists,
            forgetful,
            latency: rng.pick(&[2, 3, 5, 10]),
            fault_phase: if scenario == Scenario::Elsewhere { ELSEWHERE } else { rng.millis(5_000, 8_000) },
        }
    }

    /// When the clients line up for each lock, after the faults.
    pub(super) fn lines_up(&self) -> Duration {
        self.fault_phase + RECOVERY
    }

    /// How all keys begin.
    pub(super) fn prefix(&self) -> &'static str {
        if self.has_clusters() { TAG } else { PREFIX }
    }

    /// How many masters of this many the others can do without.
    pub(super) fn minority(masters: usize) -> usize {
        (masters - 1) / 2
    }

    pub(super) fn server_name(server: usize) -> String {
        format!("redis-{server}")
    }

    /// The server with this name.
    pub(super) fn server_of(name: &str) -> Option<usize> {
        name.strip_prefix("redis-")?.parse().ok()
    }

    pub(super) fn client_name(client: usize) -> String {
        format!("client-{client}")
    }

    pub(super) fn resource_name(resource: usize) -> String {
        format!("resource-{resource}")
    }

    pub(super) fn slot_name(slot: u32) -> String {
        format!("{}{{{slot}}}", Self::resource_name(PERMITS.0))
    }
}

/// The largest error of a server's clock, in microseconds. While a majority of the masters keeps its fences, tokens do not
/// depend on clocks, so hours do not matter. Where a majority forgets, the clocks keep tokens increasing.
fn clock_error(scenario: Scenario) -> i64 {
    match scenario {
        // So do those of two sets of servers.
        Scenario::Amnesia | Scenario::Elsewhere => 500,
        _ => 3 * 3_600_000_000,
    }
}
