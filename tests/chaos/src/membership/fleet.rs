//! The services of a run about membership. They have no links: each connects to the masters of its list.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::MutexGuard;

use super::super::process::ServiceProcess;
use super::super::service::ServiceArgs;
use super::super::store::Store;
use super::super::{Broken, Plan, RESOURCES, SERVICES, TASKS};

/// How long a service has to end; more than it needs.
const END_TIMEOUT: Duration = Duration::from_secs(40);

pub(super) struct Fleet<'a> {
    plan: &'a Plan,
    services: Vec<tokio::sync::Mutex<Service>>,
    pub(super) histories: Mutex<Vec<PathBuf>>,
    /// Violations that are not in the histories.
    pub(super) problems: Mutex<Vec<String>>,
}

/// One service.
pub(super) struct Service {
    index: usize,
    /// How often it was started.
    starts: u32,
    /// The list of masters that it was deployed with.
    masters: Vec<String>,
    process: Option<ServiceProcess>,
}

impl<'a> Fleet<'a> {
    /// Starts all services with this list of masters.
    pub(super) fn start(plan: &'a Plan, masters: &[String]) -> Self {
        let service = |index| Service { index, starts: 0, masters: masters.to_vec(), process: None };
        let mut services: Vec<_> = (0..SERVICES).map(service).collect();
        let fleet = Self { plan, services: Vec::new(), histories: Mutex::default(), problems: Mutex::default() };
        services.iter_mut().for_each(|service| service.process = Some(fleet.spawn(service)));
        Self { services: services.into_iter().map(tokio::sync::Mutex::new).collect(), ..fleet }
    }

    /// Replaces a service by one with another list of masters: the new one starts before the old one ends.
    pub(super) async fn deploy(&self, index: usize, masters: Vec<String>) {
        let mut service = self.services[index].lock().await;
        service.masters = masters;
        let new = self.spawn(&mut service);
        if let Some(old) = service.process.replace(new) {
            let problem = old.end(END_TIMEOUT).await.err();
            self.problems.lock().unwrap().extend(problem);
        }
    }

    /// A service, unless it is being deployed.
    pub(super) fn try_take(&self, index: usize) -> Option<MutexGuard<'_, Service>> {
        self.services[index].try_lock().ok()
    }

    /// `SIGSTOP` of all services, once none is being deployed. They go on when the result is dropped.
    pub(super) async fn freeze(&self) -> Frozen<'_> {
        let services = join_all(self.services.iter().map(tokio::sync::Mutex::lock)).await;
        services.iter().for_each(|service| service.stop());
        Frozen(services)
    }

    /// `SIGKILL`, and after the pause a new start with the same list.
    pub(super) async fn restart(&self, service: &mut Service, pause: Duration) {
        service.process.iter_mut().for_each(ServiceProcess::kill);
        tokio::time::sleep(pause).await;
        service.process = Some(self.spawn(service));
    }

    /// Ends a service.
    pub(super) async fn end_one(&self, index: usize) {
        let process = self.services[index].lock().await.process.take();
        if let Some(process) = process {
            let problem = process.end(END_TIMEOUT).await.err();
            self.problems.lock().unwrap().extend(problem);
        }
    }

    /// Ends all services.
    pub(super) async fn end(&self) {
        let mut services = join_all(self.services.iter().map(tokio::sync::Mutex::lock)).await;
        let processes = services.iter_mut().filter_map(|service| service.process.take());
        let ended = join_all(processes.map(|process| process.end(END_TIMEOUT))).await;
        self.problems.lock().unwrap().extend(ended.into_iter().filter_map(Result::err));
    }

    fn spawn(&self, service: &mut Service) -> ServiceProcess {
        let (index, generation) = (service.index, service.starts);
        service.starts += 1;
        let history = self.plan.directory.join(format!("service-{index}-{generation}.jsonl"));
        let args = ServiceArgs {
            service: index,
            generation,
            seed: self.plan.seed.wrapping_mul(1_000).wrapping_add(index as u64 * 100 + u64::from(generation)),
            store: Store::Redis,
            masters: service.masters.clone(),
            ledger: self.plan.directory.join("ledger.sqlite"),
            history: history.clone(),
            resources: RESOURCES,
            tasks: TASKS,
            lifetime: self.plan.seconds * 2 + 600,
            unfenced: false,
            no_quarantine: self.plan.broken == Some(Broken::NoQuarantine),
            crowd: false,
            probes: true,
        };
        self.histories.lock().unwrap().push(history);
        ServiceProcess::start(self.plan, &args)
    }
}

impl Service {
    /// How often it was started before its present start.
    pub(super) fn generation(&self) -> u32 {
        self.starts - 1
    }

    pub(super) fn stop(&self) {
        self.process.iter().for_each(ServiceProcess::stop);
    }

    pub(super) fn cont(&self) {
        self.process.iter().for_each(ServiceProcess::cont);
    }
}

/// All services, stopped.
pub(super) struct Frozen<'a>(Vec<MutexGuard<'a, Service>>);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|service| service.cont());
    }
}
