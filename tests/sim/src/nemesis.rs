use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use turmoil::Sim;

use super::chance::Chance;
use super::history::Event;
use super::plan::{PREFIX, Plan, Scenario};
use super::redis::{FakeRedis, Memory};
use super::world::World;

/// Hurts servers, clients and the links between them, as chance has it, until the storm is over.
pub(super) struct Nemesis {
    plan: Plan,
    world: World,
    servers: Vec<FakeRedis>,
    chance: Chance,
    next: Duration,
    /// What is to be made good, and when.
    cures: Vec<(Duration, Cure)>,
    /// The links, by client and server, on which there is a fault. One at a time: they would undo each other.
    hurt: BTreeSet<Link>,
    clients_down: BTreeSet<usize>,
    servers_down: BTreeSet<usize>,
    counts: BTreeMap<&'static str, u64>,
}

type Link = (usize, usize);

/// What is done to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hurt {
    /// What is sent is lost, both ways.
    Cut,
    /// What the client sends is lost.
    CutToServer,
    /// What the server sends is lost: requests are executed, and nobody is told.
    CutToClient,
    /// What is sent arrives when the link is good again.
    Held,
    /// Everything takes long, and each message its own time.
    Slow,
}

/// How a fault goes on, or ends.
#[derive(Clone, Debug)]
enum Cure {
    /// A server that closed its connections ends, until then.
    Crash(usize, Duration),
    /// Links are good again.
    Links(Hurt, Vec<Link>),
    /// A server starts.
    Server(usize),
    /// A client starts.
    Client(usize),
}

impl Nemesis {
    pub(super) fn new(plan: &Plan, world: &World, servers: &[FakeRedis]) -> Self {
        Self {
            plan: plan.clone(),
            world: world.clone(),
            servers: servers.to_vec(),
            chance: Chance::new(plan.seed, &[2]),
            next: Duration::from_millis(300),
            cures: Vec::new(),
            hurt: BTreeSet::new(),
            clients_down: BTreeSet::new(),
            servers_down: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// How many faults of each kind there were.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Does what is due.
    pub(super) fn step(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let over = now >= self.plan.storm;
        if over && self.cures.is_empty() {
            return;
        }
        let (due, later) = std::mem::take(&mut self.cures).into_iter().partition(|(at, _)| over || *at <= now);
        self.cures = later;
        let due: Vec<(Duration, Cure)> = due;
        for (_, cure) in due {
            self.cure(sim, cure);
        }
        for (client, pause) in self.world.take_pauses() {
            let links: Vec<Link> = (0..self.servers.len()).map(|server| (client, server)).collect();
            if !over && links.iter().all(|link| !self.hurt.contains(link)) {
                self.hurt_links(sim, "pause of a client", Hurt::Held, links, now + pause);
            }
        }
        if !over && now >= self.next {
            self.next = now + self.chance.millis(20, 500);
            self.fault(sim);
        }
    }

    fn fault(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let server = usize::try_from(self.chance.between(0, self.servers.len() as u64 - 1)).unwrap_or_default();
        let client = usize::try_from(self.chance.between(0, self.plan.clients as u64 - 1)).unwrap_or_default();
        // Mostly short, sometimes longer than any lock.
        let most = self.chance.pick(&[50, 200, 200, 600, 2_500]);
        let until = now + self.chance.millis(5, most);
        match self.chance.between(0, 99) {
            0..=44 => self.fault_on_links(sim, client, server, until),
            45..=52 => self.crash(sim, server, until),
            53..=61 => {
                // As a process that ends closes its connections.
                self.servers[server].cut_connections();
                self.cures.push((now + Duration::from_millis(1), Cure::Crash(server, until)));
            }
            62..=71 => {
                self.count(now, "hang of a server", &format!("redis-{server} hangs until {until:?}"));
                self.servers[server].hang(until);
            }
            72..=79 if !self.clients_down.contains(&client) => {
                self.count(now, "crash of a client", &format!("client-{client} is down until {until:?}"));
                self.world.sockets().lose(&Plan::client_name(client));
                sim.crash(Plan::client_name(client));
                self.world.note_at(now, Event::Crashed { client });
                self.clients_down.insert(client);
                self.cures.push((until, Cure::Client(client)));
            }
            80..=86 => {
                self.count(now, "cut connections", &format!("redis-{server} cuts its connections"));
                self.servers[server].cut_connections();
            }
            87..=91 => {
                self.count(now, "script flush", &format!("redis-{server} forgets its scripts"));
                self.servers[server].flush_scripts();
            }
            92..=94 if self.may_forget(server, now) => {
                self.count(now, "flushall", &format!("redis-{server} is flushed"));
                self.servers[server].flush_all();
            }
            _ if self.plan.scenario == Scenario::ClockJumps => {
                let most = self.chance.pick(&[100_000, 2_000_000, 3_600_000_000]);
                let jump = self.chance.around(most);
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

    fn fault_on_links(&mut self, sim: &mut Sim<'_>, client: usize, server: usize, until: Duration) {
        let (clients, servers) = (0..self.plan.clients, 0..self.servers.len());
        let mut links: Vec<Link> = match self.chance.between(0, 9) {
            0..=2 => servers.map(|server| (client, server)).collect(),
            3..=6 => clients.map(|client| (client, server)).collect(),
            7 => clients.flat_map(|client| servers.clone().map(move |server| (client, server))).collect(),
            _ => vec![(client, server)],
        };
        links.retain(|link| !self.hurt.contains(link));
        let hurt =
            self.chance.pick(&[Hurt::Cut, Hurt::CutToServer, Hurt::CutToClient, Hurt::Held, Hurt::Slow, Hurt::Slow]);
        let name = match hurt {
            Hurt::Cut => "partition",
            Hurt::CutToServer => "one-way partition to a server",
            Hurt::CutToClient => "one-way partition from a server",
            Hurt::Held => "held messages",
            Hurt::Slow => "slow link",
        };
        if !links.is_empty() {
            self.hurt_links(sim, name, hurt, links, until);
        }
    }

    fn hurt_links(&mut self, sim: &mut Sim<'_>, name: &'static str, hurt: Hurt, links: Vec<Link>, until: Duration) {
        self.count(sim.elapsed(), name, &format!("{hurt:?} on {links:?} until {until:?}"));
        let slow = self.chance.millis(15, 150);
        for (client, server) in &links {
            let (client, server) = (Plan::client_name(*client), Plan::server_name(*server));
            match hurt {
                Hurt::Cut => sim.partition(client, server),
                Hurt::CutToServer => sim.partition_oneway(client, server),
                Hurt::CutToClient => sim.partition_oneway(server, client),
                Hurt::Held => sim.hold(client, server),
                Hurt::Slow => sim.set_link_max_message_latency(client, server, slow),
            }
        }
        self.hurt.extend(&links);
        self.cures.push((until, Cure::Links(hurt, links)));
    }

    /// Ends a server's process, to be started again with or without its memory.
    fn crash(&mut self, sim: &mut Sim<'_>, server: usize, until: Duration) {
        if self.servers_down.contains(&server) {
            return;
        }
        let now = sim.elapsed();
        let wanted = self.chance.pick(&[Memory::Kept, Memory::Saved, Memory::Lost, Memory::Lost]);
        let memory = if self.may_forget(server, now) { wanted } else { Memory::Kept };
        let name = match memory {
            Memory::Kept => "crash of a server",
            Memory::Saved => "crash of a server, with an old memory",
            Memory::Lost => "crash of a server, without its memory",
        };
        self.count(now, name, &format!("redis-{server} is down until {until:?}, memory {memory:?}"));
        self.world.sockets().lose(&Plan::server_name(server));
        sim.crash(Plan::server_name(server));
        self.servers_down.insert(server);
        // Forgotten from now on: it must be counted among those that forgot while it is down, too.
        self.servers[server].restart(memory);
        self.cures.push((until, Cure::Server(server)));
    }

    /// Whether a server may forget: the promises hold while a majority keeps its memory, which is to say while those that
    /// forgot, or are in quarantine for that, are a minority.
    fn may_forget(&self, server: usize, now: Duration) -> bool {
        let forgot = |other: &usize| *other != server && !self.servers[*other].remembers(PREFIX, now);
        let forgotten = (0..self.servers.len()).filter(forgot).count();
        let allowed = self.plan.scenario == Scenario::Amnesia || forgotten < (self.servers.len() - 1) / 2;
        self.plan.forgetful && !self.servers[server].is_durable() && allowed
    }

    fn cure(&mut self, sim: &mut Sim<'_>, cure: Cure) {
        match &cure {
            Cure::Crash(server, until) if sim.elapsed() < self.plan.storm => return self.crash(sim, *server, *until),
            Cure::Crash(..) => return,
            _ => self.world.note_at(sim.elapsed(), Event::Fault(format!("cured: {cure:?}"))),
        }
        match cure {
            Cure::Crash(..) => {}
            Cure::Links(hurt, links) => {
                for link in links {
                    self.hurt.remove(&link);
                    let (client, server) = (Plan::client_name(link.0), Plan::server_name(link.1));
                    match hurt {
                        Hurt::Cut => sim.repair(client, server),
                        Hurt::CutToServer => sim.repair_oneway(client, server),
                        Hurt::CutToClient => sim.repair_oneway(server, client),
                        Hurt::Held => sim.release(client, server),
                        Hurt::Slow => {
                            let usual = Duration::from_millis(self.plan.latency);
                            sim.set_link_max_message_latency(client, server, usual);
                        }
                    }
                }
            }
            Cure::Server(server) => {
                self.servers_down.remove(&server);
                sim.bounce(Plan::server_name(server));
            }
            Cure::Client(client) => {
                self.clients_down.remove(&client);
                sim.bounce(Plan::client_name(client));
            }
        }
    }

    fn count(&mut self, now: Duration, name: &'static str, what: &str) {
        *self.counts.entry(name).or_default() += 1;
        self.world.note_at(now, Event::Fault(format!("{name}: {what}")));
    }
}
