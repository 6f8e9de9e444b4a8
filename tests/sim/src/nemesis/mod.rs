//! The nemesis: it injects the faults of a run. `links` breaks the network, `clients` stops the machines of clients, `masters`
//! makes servers forget and turns their clocks, as far as `members` lets it, `ambush` does that at the worst moment, `elsewhere`
//! lets addresses lead to other servers and back, `slots` moves locks inside clusters, `rollout` replaces servers and changes the clients' lists of them, and `line`
//! stops clients that wait in line when all that is over.

mod ambush;
mod clients;
mod elsewhere;
mod line;
mod links;
mod masters;
mod members;
mod rollout;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::links::{Link, LinkFault};
use self::rollout::Rollout;
use self::slots::Change;
use super::history::Event;
use super::hosts::Hosts;
use super::plan::{Plan, Scenario};
use super::rng::Rng;
use super::world::World;
use lock_fake_redis::FakeRedis;

/// Injects random faults into servers, clients and the links between them during the phase of faults.
pub(super) struct Nemesis {
    plan: Plan,
    world: World,
    servers: Vec<FakeRedis>,
    rng: Rng,
    /// When the next fault is due. `None` until all masters vote for the first time: faults begin then.
    next: Option<Duration>,
    /// What continues or ends the present faults, and when.
    follow_ups: Vec<(Duration, FollowUp)>,
    /// The links with a fault, as client and server. A link has one fault at a time, because the repair of one would undo
    /// another.
    faulty_links: BTreeSet<Link>,
    clients_down: BTreeSet<usize>,
    clients_suspended: BTreeSet<usize>,
    servers_down: BTreeSet<usize>,
    /// The servers that the clients are meant to have as masters, by seat.
    masters: Vec<usize>,
    /// The servers that were never used.
    spares: Vec<usize>,
    rollout: Option<Rollout>,
    /// The server that has the locks, of each master that is a cluster.
    owners: Vec<usize>,
    /// The clusters whose locks are on their way to another server, or with two.
    changing: BTreeSet<usize>,
    /// The servers whose clocks stepped forward, and until when a lock may therefore be missing on them.
    stepped: BTreeMap<usize, Duration>,
    /// The servers whose clocks stepped back: what expires on them may take hours.
    stepped_back: BTreeSet<usize>,
    /// What continues when the faults end has been brought to its end.
    faults_ended: bool,
    /// Some of the clients that wait in line after the faults were stopped.
    thinned_out: bool,
    counts: BTreeMap<&'static str, u64>,
}

/// How a fault continues or ends.
#[derive(Clone, Debug)]
enum FollowUp {
    /// A server that has closed its connections crashes, until this time.
    CrashServer(usize, Duration),
    /// Servers are cut off from all clients, until this time.
    Isolate(Vec<usize>, Duration),
    /// A server closes its connections.
    CutConnections(usize),
    /// A server is flushed.
    Forget(usize),
    /// A server becomes a replica of its copy, and a master again.
    Flip(usize),
    /// The users of a server may `PUBLISH` again.
    AllowPublish(usize),
    /// What the replica in a cluster has of its primary is what that has now.
    Replicate(usize),
    /// The locks of a cluster go to another server.
    Begin(usize, Change),
    /// One more key of a slot that moves.
    MoveKey(usize),
    /// A primary of a cluster learns that it was replaced.
    Demote(usize, usize),
    /// A server of a cluster learns who has the locks.
    Learn(usize),
    /// A server meets the others of its cluster again.
    ClusterIsUp(usize),
    /// Links work again.
    RepairLinks(LinkFault, Vec<Link>),
    /// A server starts.
    StartServer(usize),
    /// A client starts.
    StartClient(usize),
    /// The machine of a client goes on.
    ResumeClient(usize),
}

impl Nemesis {
    pub(super) fn new(plan: &Plan, world: &World, servers: &[FakeRedis]) -> Self {
        Self {
            plan: plan.clone(),
            world: world.clone(),
            servers: servers.to_vec(),
            rng: Rng::new(plan.seed, &[2]),
            next: None,
            follow_ups: Vec::new(),
            faulty_links: BTreeSet::new(),
            clients_down: BTreeSet::new(),
            clients_suspended: BTreeSet::new(),
            servers_down: BTreeSet::new(),
            masters: (0..plan.masters).collect(),
            spares: (plan.masters..servers.len()).collect(),
            rollout: None,
            owners: (0..plan.masters).collect(),
            changing: BTreeSet::new(),
            stepped: BTreeMap::new(),
            stepped_back: BTreeSet::new(),
            faults_ended: false,
            thinned_out: false,
            counts: BTreeMap::new(),
        }
    }

    /// How many faults of each kind were injected.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Whether what expires on a server may take hours.
    pub(super) fn stepped_back(&self, server: usize) -> bool {
        self.stepped_back.contains(&server)
    }

    /// Continues or ends the faults that are due, and injects the next fault if it is due.
    pub(super) fn step(&mut self, hosts: &mut Hosts) {
        let now = hosts.elapsed();
        if now.is_zero() {
            self.begin(hosts);
        }
        let faults_ended = now >= self.plan.fault_phase;
        let end_now = faults_ended && !std::mem::replace(&mut self.faults_ended, faults_ended);
        let (due, later) = std::mem::take(&mut self.follow_ups).into_iter().partition(|(at, _)| end_now || *at <= now);
        self.follow_ups = later;
        let due: Vec<(Duration, FollowUp)> = due;
        for (_, follow_up) in due {
            self.follow_up(hosts, follow_up);
        }
        self.roll_out(hosts, faults_ended);
        let pauses = self.world.take_pauses();
        if faults_ended {
            self.thin_out(hosts);
            return;
        }
        let Some(next) = self.next else {
            if self.all_vote(now) {
                self.next = Some(now + self.rng.millis(20, 500));
            }
            return;
        };
        let may_be_cut_off = self.plan.scenario != Scenario::Elsewhere;
        for (client, pause) in pauses.into_iter().filter(|_| may_be_cut_off) {
            self.pause(hosts, client, now + pause);
        }
        if now >= next {
            self.next = Some(now + self.rng.millis(20, 500));
            self.inject(hosts);
        }
    }

    fn inject(&mut self, hosts: &mut Hosts) {
        let now = hosts.elapsed();
        let used = (self.servers.len() - self.spares.len()) as u64;
        let server = usize::try_from(self.rng.between(0, used - 1)).unwrap_or_default();
        let client = usize::try_from(self.rng.between(0, self.plan.clients as u64 - 1)).unwrap_or_default();
        if self.plan.scenario == Scenario::Elsewhere {
            return self.inject_elsewhere(now, server);
        }
        let longest = [50, 200, 200, 600, 2_500];
        if self.plan.has_clusters() {
            let longest = self.rng.pick(&longest);
            let until = now + self.rng.millis(5, longest);
            return self.inject_into_clusters(hosts, [server, client], until);
        }
        // By chance alone, the few runs of the gate hardly replace a master, and take none back.
        if self.plan.seed.is_multiple_of(4) && !self.counts.contains_key("replacement of a master") {
            self.begin_rollout(hosts);
        }
        // Mostly short, sometimes longer than any ttl.
        let longest = self.rng.pick(&longest);
        let until = now + self.rng.millis(5, longest);
        // What is wrong with a flawed server shows when one forgets.
        let ambush = self.plan.flaw.is_some() && self.rng.percent(30);
        match if ambush { 115 } else { self.rng.between(0, 137) } {
            0..=44 => self.inject_link_fault(hosts, client, server, until),
            45..=52 => self.crash(hosts, server, until),
            53..=61 => {
                // A process that ends closes its connections first.
                self.servers[server].cut_connections();
                self.follow_ups.push((now + Duration::from_millis(1), FollowUp::CrashServer(server, until)));
            }
            62..=71 => {
                self.count(now, "hang of a server", &format!("redis-{server} hangs until {until:?}"));
                self.servers[server].hang(until);
            }
            72..=79 => self.crash_client(hosts, client, until),
            80..=86 => self.cut_connections(server, now),
            87..=88 => self.flush_scripts(server, now),
            89..=91 => self.deny_publish(server, now, until),
            92..=94 => self.flush(server, now),
            95..=106 => self.suspend_client(hosts, client, until),
            107..=110 => self.step_clock(now),
            111..=114 => self.begin_rollout(hosts),
            115..=126 => self.ambush(hosts, server, client),
            127..=132 => self.copy(server, now),
            _ if self.plan.scenario == Scenario::ClockJumps => self.jump(server, now),
            _ if self.plan.scenario == Scenario::Amnesia => {
                self.count(now, "amnesia", "all servers are flushed");
                self.servers.iter().for_each(FakeRedis::flush_all);
            }
            _ => self.servers[server].save(),
        }
    }

    fn follow_up(&mut self, hosts: &mut Hosts, follow_up: FollowUp) {
        match &follow_up {
            FollowUp::CrashServer(server, until) if hosts.elapsed() < self.plan.fault_phase => {
                return self.crash(hosts, *server, *until);
            }
            FollowUp::CrashServer(..) => return,
            FollowUp::Forget(_) | FollowUp::Flip(_) | FollowUp::Isolate(..) | FollowUp::Begin(..)
                if hosts.elapsed() >= self.plan.fault_phase =>
            {
                return;
            }
            _ => self.world.record_at(hosts.elapsed(), Event::Fault(format!("{follow_up:?}"))),
        }
        match follow_up {
            FollowUp::CrashServer(..) => {}
            FollowUp::Isolate(servers, until) => self.isolate(hosts, servers, until),
            FollowUp::CutConnections(server) => self.servers[server].cut_connections(),
            FollowUp::Forget(server) => self.flush(server, hosts.elapsed()),
            FollowUp::Flip(server) => self.flip(server, hosts.elapsed()),
            FollowUp::Replicate(cluster) => self.replicate(cluster),
            FollowUp::Begin(cluster, change) => self.begin_change(hosts.elapsed(), cluster, change),
            FollowUp::MoveKey(cluster) => self.move_key(hosts.elapsed(), cluster),
            FollowUp::Demote(cluster, former) => self.demote(cluster, former),
            FollowUp::Learn(cluster) => self.learn(cluster),
            FollowUp::ClusterIsUp(server) => self.servers[server].set_cluster_down(false),
            FollowUp::AllowPublish(server) => self.servers[server].set_mute(false),
            FollowUp::RepairLinks(fault, links) => self.repair_links(hosts, fault, links),
            FollowUp::StartServer(server) => self.start_server(hosts, server),
            FollowUp::StartClient(client) => self.start_client(hosts, client),
            FollowUp::ResumeClient(client) => self.resume_client(hosts, client),
        }
    }

    fn count(&mut self, now: Duration, name: &'static str, what: &str) {
        *self.counts.entry(name).or_default() += 1;
        self.world.record_at(now, Event::Fault(format!("{name}: {what}")));
    }
}
