//! The servers, the services, and the links between them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::crowd::{CROWD, CROWD_RESOURCE, MEMBERS};
use super::fault::{Fault, Kind};
use super::history::{self, Event, Journal, Standing};
use super::ledger::Ledger;
use super::link::{Link, Mode};
use super::probe::watch_for_stalls;
use super::process::ServiceProcess;
use super::service::ServiceArgs;
use super::wakeups::{Counters, Traffic};
use super::{Broken, PREFIX, Plan, RESOURCES, SERVERS, SERVICES, TASKS, protected, resource};
use lock_support::{RedisCluster, RedisServer};

/// How long a server has to reply to the nemesis.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a service has to end; more than it needs.
const END_TIMEOUT: Duration = Duration::from_secs(40);

pub(super) struct World<'a> {
    plan: &'a Plan,
    pub(super) journal: Arc<Journal>,
    pub(super) ledger: Ledger,
    pub(super) servers: Vec<RedisServer>,
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
        let servers = RedisCluster::start(SERVERS).await.servers;
        let (mut services, wakeups) = (Vec::new(), Arc::default());
        for _ in 0..SERVICES + CROWD {
            let open = |server: &RedisServer| Link::open(server.address(), Arc::clone(&wakeups));
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
            masters: service.links.iter().map(Link::url).collect(),
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
        let pause = format!("CLIENT PAUSE {} ALL", duration.as_millis());
        match kind {
            Kind::KillServer => self.server(fault).kill(),
            Kind::RestartServer => self.server(fault).restart_empty().await,
            Kind::StopServer => self.server(fault).stop(),
            Kind::ReloadServer => self.server(fault).restart_with_data().await,
            Kind::FlushServer => self.query(fault, "FLUSHALL").await,
            Kind::FlushScripts => self.query(fault, "SCRIPT FLUSH").await,
            Kind::PauseClients => self.query(fault, &pause).await,
            Kind::KillService | Kind::StopService => self.signal(fault),
            link => self.set(fault, link.mode(duration).unwrap_or(Mode::Pass)),
        }
    }

    /// Ends a fault. Its effects may last longer.
    pub(super) async fn heal(&mut self, fault: &Fault) {
        let Fault { kind, server, service, .. } = *fault;
        self.journal.write(Event::Healed { kind: kind.name().to_owned(), server, service });
        match kind {
            Kind::KillServer => self.server(fault).restart_empty().await,
            Kind::StopServer => self.server(fault).cont(),
            // They end on their own.
            Kind::RestartServer | Kind::ReloadServer | Kind::FlushServer | Kind::FlushScripts | Kind::PauseClients => {}
            Kind::KillService => self.start_service(fault.service.unwrap()),
            Kind::StopService => self.services[fault.service.unwrap()].process.iter().for_each(ServiceProcess::cont),
            _ => self.set(fault, Mode::Pass),
        }
    }

    fn server(&mut self, fault: &Fault) -> &mut RedisServer {
        &mut self.servers[fault.server.unwrap()]
    }

    async fn query(&mut self, fault: &Fault, command: &str) {
        let reply = timeout(REPLY_TIMEOUT * 5, self.server(fault).try_query::<String>(command)).await;
        if !matches!(reply, Ok(Ok(_))) {
            self.problems.push(format!("{command} got no reply: {reply:?}"));
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

    /// Whether a server votes: its record is for this run of the server, and has an epoch.
    pub(super) async fn votes(&self, server: usize) -> bool {
        let asked = async {
            let server = &self.servers[server];
            let record =
                server.try_query::<[Option<String>; 2]>(&format!("HMGET {PREFIX}{{node}} epoch run_id")).await?;
            let info = server.try_query::<String>("INFO server").await?;
            let [epoch, run_id] = record.map(Option::unwrap_or_default);
            redis::RedisResult::Ok(!epoch.is_empty() && info.contains(&format!("run_id:{run_id}")))
        };
        matches!(timeout(REPLY_TIMEOUT, asked).await, Ok(Ok(true)))
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
        let pattern = format!("{PREFIX}[^{{]*");
        join_all(self.servers.iter().map(|server| server.keys(&pattern))).await.concat()
    }
}

fn history_name(service: usize, generation: u32) -> String {
    format!("service-{service}-{generation}.jsonl")
}
