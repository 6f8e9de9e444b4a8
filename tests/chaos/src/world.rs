//! Servers, services, and the links between them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::calls::Counters;
use super::fault::{Fault, Kind};
use super::history::{self, Event, Journal};
use super::ledger::Ledger;
use super::link::{Link, Mode};
use super::process::ServiceProcess;
use super::service::ServiceArgs;
use super::{Broken, PREFIX, Plan, RESOURCES, SERVERS, SERVICES, TASKS, resource};
use lock_support::{RedisCluster, RedisServer};

/// How long a server is given to answer a question of the nemesis.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a service is given to end; more than it takes by itself.
const END: Duration = Duration::from_secs(40);

pub(super) struct World<'a> {
    plan: &'a Plan,
    pub(super) journal: Journal,
    pub(super) ledger: Ledger,
    pub(super) servers: Vec<RedisServer>,
    services: Vec<Service>,
    pub(super) calls: Arc<Counters>,
    pub(super) histories: Vec<PathBuf>,
    /// What must not happen, and did, other than in the history.
    pub(super) troubles: Vec<String>,
}

/// One service: its links, and its process if it runs.
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
        let ledger = Ledger::open(&plan.directory.join("ledger.sqlite"), true).unwrap();
        ledger.add_counters((0..RESOURCES).map(resource).collect::<Vec<_>>().iter()).unwrap();
        let servers = RedisCluster::start(SERVERS).await.servers;
        let (mut services, calls) = (Vec::new(), Arc::default());
        for _ in 0..SERVICES {
            let open = |server: &RedisServer| Link::open(server.address(), Arc::clone(&calls));
            let links = join_all(servers.iter().map(open)).await;
            services.push(Service { links, process: None, starts: 0 });
        }
        let histories = vec![plan.directory.join("nemesis.jsonl")];
        let mut world = Self { plan, journal, ledger, servers, services, calls, histories, troubles: Vec::new() };
        (0..SERVICES).for_each(|service| world.start_service(service));
        world
    }

    fn start_service(&mut self, number: usize) {
        let service = &mut self.services[number];
        let generation = service.starts;
        service.starts += 1;
        let history = self.plan.directory.join(history_name(number, generation));
        let args = ServiceArgs {
            service: number,
            generation,
            seed: self.plan.seed.wrapping_mul(1_000).wrapping_add(number as u64 * 100 + u64::from(generation)),
            masters: service.links.iter().map(Link::url).collect(),
            ledger: self.plan.directory.join("ledger.sqlite"),
            history: history.clone(),
            resources: RESOURCES,
            tasks: TASKS,
            lifetime: self.plan.seconds * 2 + 300,
            unfenced: self.plan.broken == Some(Broken::Unfenced),
        };
        service.process = Some(ServiceProcess::start(self.plan, &args));
        self.histories.push(history);
    }

    /// Begins a fault.
    pub(super) async fn hurt(&mut self, fault: &Fault) {
        let generation = fault.service.map(|service| self.services[service].starts - 1);
        let Fault { kind, server, service, lasts } = *fault;
        // Written down before a service is stopped or killed, so that it is alive up to there for certain.
        self.journal.write(Event::Fault { kind: kind.name().to_owned(), server, service, generation });
        let pause = format!("CLIENT PAUSE {} ALL", lasts.as_millis());
        match kind {
            Kind::KillServer => self.server(fault).kill(),
            Kind::RestartServer => self.server(fault).restart_empty().await,
            Kind::StopServer => self.server(fault).stop(),
            Kind::ReloadServer => self.server(fault).restart_with_data().await,
            Kind::FlushServer => self.tell(fault, "FLUSHALL").await,
            Kind::FlushScripts => self.tell(fault, "SCRIPT FLUSH").await,
            Kind::PauseClients => self.tell(fault, &pause).await,
            Kind::KillService | Kind::StopService => self.signal(fault),
            link => self.set(fault, link.mode(lasts).unwrap_or(Mode::Pass)),
        }
    }

    /// Ends a fault. What it did may take longer to pass.
    pub(super) async fn heal(&mut self, fault: &Fault) {
        let Fault { kind, server, service, .. } = *fault;
        self.journal.write(Event::Healed { kind: kind.name().to_owned(), server, service });
        match kind {
            Kind::KillServer => self.server(fault).restart_empty().await,
            Kind::StopServer => self.server(fault).cont(),
            // They pass by themselves.
            Kind::RestartServer | Kind::ReloadServer | Kind::FlushServer | Kind::FlushScripts | Kind::PauseClients => {}
            Kind::KillService => self.start_service(fault.service.unwrap()),
            Kind::StopService => self.services[fault.service.unwrap()].process.iter().for_each(ServiceProcess::cont),
            _ => self.set(fault, Mode::Pass),
        }
    }

    fn server(&mut self, fault: &Fault) -> &mut RedisServer {
        &mut self.servers[fault.server.unwrap()]
    }

    async fn tell(&mut self, fault: &Fault, command: &str) {
        let told = timeout(ANSWER * 5, self.server(fault).try_query::<String>(command)).await;
        if !matches!(told, Ok(Ok(_))) {
            self.troubles.push(format!("{command} was not answered: {told:?}"));
        }
    }

    fn set(&self, fault: &Fault, mode: Mode) {
        let links = &self.services[fault.service.unwrap()].links;
        match fault.server {
            Some(server) => links[server].set(mode),
            None => links.iter().for_each(|link| link.set_calls(mode)),
        }
    }

    /// Kills or stops a service, which must be running.
    fn signal(&mut self, fault: &Fault) {
        let number = fault.service.unwrap();
        let Some(process) = &mut self.services[number].process else { return };
        if let Some(status) = process.ended() {
            self.troubles.push(format!("service {number} ended by itself: {status}"));
        } else if fault.kind == Kind::StopService {
            process.stop();
        } else {
            process.kill();
        }
    }

    /// Whether a service holds a lock just now.
    pub(super) fn holds(&self, service: usize) -> bool {
        let generation = self.services[service].starts - 1;
        history::holds(&self.plan.directory.join(history_name(service, generation))).unwrap_or(false)
    }

    /// Whether a server votes: it has its record, and is not in quarantine.
    pub(super) async fn votes(&self, server: usize) -> bool {
        let asked = async {
            let server = &self.servers[server];
            let record = server.try_query::<u8>(&format!("EXISTS {PREFIX}{{node}}")).await?;
            let quarantine = server.try_query::<u8>(&format!("EXISTS {PREFIX}{{node}}:quarantine")).await?;
            redis::RedisResult::Ok(record == 1 && quarantine == 0)
        };
        matches!(timeout(ANSWER, asked).await, Ok(Ok(true)))
    }

    /// How many writes there are, by resource.
    pub(super) fn written(&self) -> Vec<i64> {
        (0..RESOURCES).map(|number| self.ledger.written(&resource(number)).unwrap()).collect()
    }

    /// Ends all services.
    pub(super) async fn end(&mut self) {
        let processes = self.services.iter_mut().filter_map(|service| service.process.take());
        let ended = join_all(processes.map(|process| process.end(END))).await;
        for (number, ended) in ended.into_iter().enumerate() {
            self.troubles.extend(ended.err().map(|trouble| format!("service {number}: {trouble}")));
        }
    }

    /// The lock keys that are left, on all servers.
    pub(super) async fn keys(&self) -> Vec<String> {
        let pattern = format!("{PREFIX}[^{{]*");
        join_all(self.servers.iter().map(|server| server.keys(&pattern))).await.concat()
    }
}

fn history_name(service: usize, generation: u32) -> String {
    format!("service-{service}-{generation}.jsonl")
}
