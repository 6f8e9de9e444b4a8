use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use turmoil::Sim;

use super::history::Event;
use super::plan::{PREFIX, Plan, Scenario};
use super::redis::{FakeRedis, Memory};
use super::rng::Rng;
use super::world::World;

/// Injects random faults into servers, clients and the links between them during the phase of faults.
pub(super) struct Nemesis {
    plan: Plan,
    world: World,
    servers: Vec<FakeRedis>,
    rng: Rng,
    next: Duration,
    /// What continues or ends the present faults, and when.
    follow_ups: Vec<(Duration, FollowUp)>,
    /// The links with a fault, as client and server. A link has one fault at a time, because the repair of one would undo
    /// another.
    faulty_links: BTreeSet<Link>,
    clients_down: BTreeSet<usize>,
    servers_down: BTreeSet<usize>,
    counts: BTreeMap<&'static str, u64>,
}

type Link = (usize, usize);

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkFault {
    /// Messages are lost in both directions.
    Partition,
    /// Messages of the client are lost.
    PartitionToServer,
    /// Messages of the server are lost: requests are executed, but their replies do not arrive.
    PartitionToClient,
    /// Messages arrive after the repair.
    Held,
    /// Messages have a long and varying latency.
    Slow,
}

/// How a fault continues or ends.
#[derive(Clone, Debug)]
enum FollowUp {
    /// A server that has closed its connections crashes, until this time.
    CrashServer(usize, Duration),
    /// Links work again.
    RepairLinks(LinkFault, Vec<Link>),
    /// A server starts.
    StartServer(usize),
    /// A client starts.
    StartClient(usize),
}

impl Nemesis {
    pub(super) fn new(plan: &Plan, world: &World, servers: &[FakeRedis]) -> Self {
        Self {
            plan: plan.clone(),
            world: world.clone(),
            servers: servers.to_vec(),
            rng: Rng::new(plan.seed, &[2]),
            next: Duration::from_millis(300),
            follow_ups: Vec::new(),
            faulty_links: BTreeSet::new(),
            clients_down: BTreeSet::new(),
            servers_down: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// How many faults of each kind were injected.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Continues or ends the faults that are due, and injects the next fault if it is due.
    pub(super) fn step(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let faults_ended = now >= self.plan.fault_phase;
        if faults_ended && self.follow_ups.is_empty() {
            return;
        }
        let (due, later) =
            std::mem::take(&mut self.follow_ups).into_iter().partition(|(at, _)| faults_ended || *at <= now);
        self.follow_ups = later;
        let due: Vec<(Duration, FollowUp)> = due;
        for (_, follow_up) in due {
            self.follow_up(sim, follow_up);
        }
        for (client, pause) in self.world.take_pauses() {
            let links: Vec<Link> = (0..self.servers.len()).map(|server| (client, server)).collect();
            if !faults_ended && links.iter().all(|link| !self.faulty_links.contains(link)) {
                self.break_links(sim, "pause of a client", LinkFault::Held, links, now + pause);
            }
        }
        if !faults_ended && now >= self.next {
            self.next = now + self.rng.millis(20, 500);
            self.inject(sim);
        }
    }

    fn inject(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let server = usize::try_from(self.rng.between(0, self.servers.len() as u64 - 1)).unwrap_or_default();
        let client = usize::try_from(self.rng.between(0, self.plan.clients as u64 - 1)).unwrap_or_default();
        // Mostly short, sometimes longer than any ttl.
        let longest = self.rng.pick(&[50, 200, 200, 600, 2_500]);
        let until = now + self.rng.millis(5, longest);
        match self.rng.between(0, 99) {
            0..=44 => self.inject_link_fault(sim, client, server, until),
            45..=52 => self.crash(sim, server, until),
            53..=61 => {
                // A process that ends closes its connections first.
                self.servers[server].cut_connections();
                self.follow_ups.push((now + Duration::from_millis(1), FollowUp::CrashServer(server, until)));
            }
            62..=71 => {
                self.count(now, "hang of a server", &format!("redis-{server} hangs until {until:?}"));
                self.servers[server].hang(until);
            }
            72..=79 if !self.clients_down.contains(&client) => {
                self.count(now, "crash of a client", &format!("client-{client} is down until {until:?}"));
                self.world.sockets().drop_connections(&Plan::client_name(client));
                sim.crash(Plan::client_name(client));
                self.world.record_at(now, Event::Crashed { client });
                self.clients_down.insert(client);
                self.follow_ups.push((until, FollowUp::StartClient(client)));
            }
            80..=86 => {
                self.count(now, "cut connections", &format!("redis-{server} cuts its connections"));
                self.servers[server].cut_connections();
            }
            87..=91 => {
                self.count(now, "script flush", &format!("redis-{server} forgets its scripts"));
                self.servers[server].flush_scripts();
            }
            92..=94 if self.may_lose_memory(server, now) => {
                self.count(now, "flushall", &format!("redis-{server} is flushed"));
                self.servers[server].flush_all();
            }
            _ if self.plan.scenario == Scenario::ClockJumps => {
                let most = self.rng.pick(&[100_000, 2_000_000, 3_600_000_000]);
                let jump = self.rng.within(most);
                self.count(now, "clock jump", &format!("the clock of redis-{server} jumps by {jump} µs"));
                self.servers[server].jump(jump);
            }
            _ if self.plan.scenario == Scenario::Amnesia => {
                self.count(now, "amnesia", "all servers are flushed");
                self.servers.iter().for_each(FakeRedis::flush_all);
            }
            _ => self.servers[server].save(),
        }
    }

    fn inject_link_fault(&mut self, sim: &mut Sim<'_>, client: usize, server: usize, until: Duration) {
        let (clients, servers) = (0..self.plan.clients, 0..self.servers.len());
        let mut links: Vec<Link> = match self.rng.between(0, 9) {
            0..=2 => servers.map(|server| (client, server)).collect(),
            3..=6 => clients.map(|client| (client, server)).collect(),
            7 => clients.flat_map(|client| servers.clone().map(move |server| (client, server))).collect(),
            _ => vec![(client, server)],
        };
        links.retain(|link| !self.faulty_links.contains(link));
        let fault = self.rng.pick(&[
            LinkFault::Partition,
            LinkFault::PartitionToServer,
            LinkFault::PartitionToClient,
            LinkFault::Held,
            LinkFault::Slow,
            LinkFault::Slow,
        ]);
        let name = match fault {
            LinkFault::Partition => "partition",
            LinkFault::PartitionToServer => "one-way partition to a server",
            LinkFault::PartitionToClient => "one-way partition from a server",
            LinkFault::Held => "held messages",
            LinkFault::Slow => "slow link",
        };
        if !links.is_empty() {
            self.break_links(sim, name, fault, links, until);
        }
    }

    fn break_links(
        &mut self,
        sim: &mut Sim<'_>,
        name: &'static str,
        fault: LinkFault,
        links: Vec<Link>,
        until: Duration,
    ) {
        self.count(sim.elapsed(), name, &format!("{fault:?} on {links:?} until {until:?}"));
        let slow = self.rng.millis(15, 150);
        for (client, server) in &links {
            let (client, server) = (Plan::client_name(*client), Plan::server_name(*server));
            match fault {
                LinkFault::Partition => sim.partition(client, server),
                LinkFault::PartitionToServer => sim.partition_oneway(client, server),
                LinkFault::PartitionToClient => sim.partition_oneway(server, client),
                LinkFault::Held => sim.hold(client, server),
                LinkFault::Slow => sim.set_link_max_message_latency(client, server, slow),
            }
        }
        self.faulty_links.extend(&links);
        self.follow_ups.push((until, FollowUp::RepairLinks(fault, links)));
    }

    /// Ends the process of a server, which is started again later with or without its memory.
    fn crash(&mut self, sim: &mut Sim<'_>, server: usize, until: Duration) {
        if self.servers_down.contains(&server) {
            return;
        }
        let now = sim.elapsed();
        let wanted = self.rng.pick(&[Memory::Kept, Memory::Saved, Memory::Lost, Memory::Lost]);
        let memory = if self.may_lose_memory(server, now) { wanted } else { Memory::Kept };
        let name = match memory {
            Memory::Kept => "crash of a server",
            Memory::Saved => "crash of a server, with an old memory",
            Memory::Lost => "crash of a server, without its memory",
        };
        self.count(now, name, &format!("redis-{server} is down until {until:?}, memory {memory:?}"));
        self.world.sockets().drop_connections(&Plan::server_name(server));
        sim.crash(Plan::server_name(server));
        self.servers_down.insert(server);
        // Its memory is lost now, so that it counts as forgetful while it is down.
        self.servers[server].restart(memory);
        self.follow_ups.push((until, FollowUp::StartServer(server)));
    }

    /// Whether a server may lose its memory. The promises hold while the servers that lost theirs, or are in quarantine for
    /// that reason, are a minority.
    fn may_lose_memory(&self, server: usize, now: Duration) -> bool {
        let is_forgetful = |other: &usize| *other != server && !self.servers[*other].remembers(PREFIX, now);
        let forgetful = (0..self.servers.len()).filter(is_forgetful).count();
        let allowed = self.plan.scenario == Scenario::Amnesia || forgetful < (self.servers.len() - 1) / 2;
        self.plan.forgetful && !self.servers[server].is_durable() && allowed
    }

    fn follow_up(&mut self, sim: &mut Sim<'_>, follow_up: FollowUp) {
        match &follow_up {
            FollowUp::CrashServer(server, until) if sim.elapsed() < self.plan.fault_phase => {
                return self.crash(sim, *server, *until);
            }
            FollowUp::CrashServer(..) => return,
            _ => self.world.record_at(sim.elapsed(), Event::Fault(format!("{follow_up:?}"))),
        }
        match follow_up {
            FollowUp::CrashServer(..) => {}
            FollowUp::RepairLinks(fault, links) => {
                for link in links {
                    self.faulty_links.remove(&link);
                    let (client, server) = (Plan::client_name(link.0), Plan::server_name(link.1));
                    match fault {
                        LinkFault::Partition => sim.repair(client, server),
                        LinkFault::PartitionToServer => sim.repair_oneway(client, server),
                        LinkFault::PartitionToClient => sim.repair_oneway(server, client),
                        LinkFault::Held => sim.release(client, server),
                        LinkFault::Slow => {
                            let usual = Duration::from_millis(self.plan.latency);
                            sim.set_link_max_message_latency(client, server, usual);
                        }
                    }
                }
            }
            FollowUp::StartServer(server) => {
                self.servers_down.remove(&server);
                sim.bounce(Plan::server_name(server));
            }
            FollowUp::StartClient(client) => {
                self.clients_down.remove(&client);
                sim.bounce(Plan::client_name(client));
            }
        }
    }

    fn count(&mut self, now: Duration, name: &'static str, what: &str) {
        *self.counts.entry(name).or_default() += 1;
        self.world.record_at(now, Event::Fault(format!("{name}: {what}")));
    }
}
