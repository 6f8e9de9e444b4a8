//! The servers, the services, and the links between them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::crowd::{CROWD, CROWD_RESOURCE, MEMBERS};
use super::fault::{Fault, Kind};
use super::history::{self, Event, Journal, Standing};
use super::ledger::Ledger;
use super::link::{Link, Mode};
use super::probe::watch_for_stalls;
use super::process::ServiceProcess;
use super::service::ServiceArgs;
use super::store::Server;
use super::wakeups::{Counters, Traffic};
use super::{Broken, Plan, RESOURCES, SERVICES, TASKS, protected, resource};

/// How long a service has to end; more than it needs.
const END_TIMEOUT: Duration = Duration::from_secs(40);

pub(super) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) journal: Arc<Journal>,
    pub(super) ledger: Ledger,
    pub(super) servers: Vec<Server>,
    services: Vec<Service>,
    pub(super) wakeups: Arc<Counters>,
    pub(super) histories: Vec<PathBuf>,
    /// Violations that are not in the histories.
    pub(super) problems: Vec<String>,
}

/// One service: its links, and its process if it is running.
struct Service {
    links: Vec<Link>,
    process: Option<ServiceProcess>,
    /// How often it was started.
    starts: u32,
}

impl<'a> World<'a> {
    /// Starts everything.
    pub(super) async fn start(plan: &'a Plan) -> Self {
        let journal = Journal::create(&plan.directory.join("nemesis.jsonl")).expect("the directory is new");
        let journal = Arc::new(journal);
        let ledger = Ledger::open(&plan.directory.join("ledger.sqlite"), true).unwrap();
        let crowd = CROWD_RESOURCE.to_owned();
        ledger.add_counters(protected().iter().chain([&crowd])).unwrap();
        let servers = plan.store.start(plan.servers(), SERVICES + CROWD).await;
        let (mut services, wakeups) = (Vec::new(), Arc::default());
        for _ in 0..SERVICES + CROWD {
            let open = |server: &Server| Link::open(plan.store, server.addresses(), Arc::clone(&wakeups));
            let links = join_all(servers.iter().map(open)).await;
            services.push(Service { links, process: None, starts: 0 });
        }
        let histories = vec![plan.directory.join("nemesis.jsonl")];
        let mut world = Self { plan, journal, ledger, servers, services, wakeups, histories, problems: Vec::new() };
        (0..SERVICES).for_each(|service| world.start_service(service));
        watch_for_stalls(&world.journal);
        world
    }

    fn start_service(&mut self, index: usize) {
        let service = &mut self.services[index];
        let generation = service.starts;
        service.starts += 1;
        let history = self.plan.directory.join(history_name(index, generation));
        let args = ServiceArgs {
            service: index,
            generation,
            seed: self.plan.seed.wrapping_mul(1_000).wrapping_add(index as u64 * 100 + u64::from(generation)),
            store: self.plan.store,
            masters: service.links.iter().map(|link| link.url(index)).collect(),
            ledger: self.plan.directory.join("ledger.sqlite"),
            history: history.clone(),
            resources: RESOURCES,
            tasks: if MEMBERS.contains(&index) { 1 } else { TASKS },
            lifetime: self.plan.seconds * 2 + 300,
            unfenced: self.plan.broken == Some(Broken::Unfenced),
            no_quarantine: self.plan.broken == Some(Broken::NoQuarantine),
            crowd: MEMBERS.contains(&index),
            probes: false,
        };
        service.process = Some(ServiceProcess::start(self.plan, &args));
        self.histories.push(history);
    }

    /// Begins a fault.
    pub(super) async fn inject(&mut self, fault: &Fault) {
        let generation = fault.service.map(|service| self.services[service].starts - 1);
        let Fault { kind, server, service, duration } = *fault;
        // Recorded before a service is stopped or killed, so that it is certainly alive until then.
        self.journal.write(Event::Fault { kind: kind.name().to_owned(), server, service, generation });
        match (kind.mode(duration), server) {
            (None, None) if kind == Kind::DenyPublish => self.allow_publish(service, false).await,
            (Some(mode), _) => self.set(fault, mode),
            (None, Some(server)) if kind == Kind::StepClock => self.step_clock(server).await,
            (None, Some(server)) => self.problems.extend(self.servers[server].inject(kind, duration).await.err()),
            (None, None) => self.signal(fault),
        }
    }

    /// Ends a fault. Its effects may last longer.
    pub(super) async fn heal(&mut self, fault: &Fault) {
        let Fault { kind, server, service, duration } = *fault;
        self.journal.write(Event::Healed { kind: kind.name().to_owned(), server, service });
        match (kind.mode(duration), server, service) {
            (None, None, service) if kind == Kind::DenyPublish => self.allow_publish(service, true).await,
            (Some(_), _, _) => self.set(fault, Mode::Pass),
            (None, Some(server), _) => self.servers[server].heal(kind).await,
            (None, None, Some(service)) if kind == Kind::KillService => self.start_service(service),
            (None, None, Some(service)) => self.services[service].process.iter().for_each(ServiceProcess::cont),
            (None, None, None) => {}
        }
    }

    /// Takes the right to `PUBLISH` from a service on all servers, or gives it back.
    async fn allow_publish(&mut self, service: Option<usize>, allowed: bool) {
        for server in &self.servers {
            self.problems.extend(server.allow_publish(service.unwrap(), allowed).await.err());
        }
    }

    fn set(&self, fault: &Fault, mode: Mode) {
        let links = &self.services[fault.service.unwrap()].links;
        match fault.server {
            Some(server) if fault.kind == Kind::CutRequests => links[server].set_only(Traffic::Requests, mode),
            Some(server) => links[server].set(mode),
            None => links.iter().for_each(|link| link.set_only(Traffic::Wakeups, mode)),
        }
    }

    /// Kills or stops a service, which must be running.
    fn signal(&mut self, fault: &Fault) {
        let index = fault.service.unwrap();
        let Some(process) = &mut self.services[index].process else { return };
        if let Some(status) = process.ended() {
            self.problems.push(format!("service {index} ended unexpectedly: {status}"));
        } else if fault.kind == Kind::StopService {
            process.stop();
        } else {
            process.kill();
        }
    }

    /// `SIGSTOP` of all services that run. Returns which.
    pub(super) fn freeze(&mut self) -> Vec<usize> {
        let processes =
            self.services.iter_mut().enumerate().filter_map(|(index, s)| Some((index, s.process.as_mut()?)));
        let running = processes.filter_map(|(index, process)| process.is_running().then_some((index, process)));
        running
            .map(|(index, process)| {
                process.stop();
                index
            })
            .collect()
    }

    /// They go on.
    pub(super) fn thaw(&self, frozen: &[usize]) {
        frozen.iter().filter_map(|service| self.services[*service].process.as_ref()).for_each(ServiceProcess::cont);
    }

    /// Where a service of the crowd stands now.
    pub(super) fn standing(&self, service: usize) -> Standing {
        let Some(generation) = self.services[service].starts.checked_sub(1) else { return Standing::Neither };
        history::standing(&self.plan.directory.join(history_name(service, generation))).unwrap_or(Standing::Neither)
    }

    /// Whether a service holds a lock now.
    pub(super) fn holds(&self, service: usize) -> bool {
        let generation = self.services[service].starts - 1;
        history::holds(&self.plan.directory.join(history_name(service, generation))).unwrap_or(false)
    }

    /// How many writes each resource has.
    pub(super) fn written(&self) -> Vec<i64> {
        (0..RESOURCES).map(|index| self.ledger.written(&resource(index)).unwrap()).collect()
    }

    /// Ends all services.
    pub(super) async fn end(&mut self) {
        self.end_services(0..self.services.len()).await;
    }

    /// Ends some services, and starts others.
    pub(super) async fn replace_services(&mut self, ended: Range<usize>, started: Range<usize>) {
        self.end_services(ended).await;
        for service in started {
            self.start_service(service);
            let kind = Kind::KillService.name().to_owned();
            self.journal.write(Event::Healed { kind, server: None, service: Some(service) });
        }
    }

    async fn end_services(&mut self, range: Range<usize>) {
        let services = self.services.iter_mut().enumerate().filter(|(index, _)| range.contains(index));
        let running = services.filter_map(|(index, service)| Some((index, service.process.take()?)));
        let ended = join_all(running.map(async |(index, process)| (index, process.end(END_TIMEOUT).await))).await;
        for (index, ended) in ended {
            self.problems.extend(ended.err().map(|problem| format!("service {index}: {problem}")));
        }
    }

    /// The lock keys that are left on all servers.
    pub(super) async fn keys(&self) -> Vec<String> {
        join_all(self.servers.iter().map(Server::lock_keys)).await.concat()
    }
}

fn history_name(service: usize, generation: u32) -> String {
    format!("service-{service}-{generation}.jsonl")
}
