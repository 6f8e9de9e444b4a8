//! A service process: `chaos` runs several of them.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use lock_core::LockManager;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::crowd::CROWD_RESOURCE;
use super::delegations::adopt;
use super::history::{Event, Journal};
use super::ledger::Ledger;
use super::log::Log;
use super::masters::builder;
use super::operator::operate;
use super::probe::{probe, watch_for_stalls};
use super::race::race;
use super::store::Store;
use super::succession::succeed_each_other;
use super::worker::{MAX_CYCLES, Worker};
use super::{PERMIT_TASKS, PERMITS, TASKS, resource};
use lock_support::Dice;

/// How long a service waits for its tasks and holders when it ends.
const GRACE: Duration = Duration::from_secs(10);

/// The arguments of a service process.
#[derive(Args, Clone, Debug)]
pub struct ServiceArgs {
    /// The index of the service.
    #[arg(long)]
    pub service: usize,
    /// How often it was started before.
    #[arg(long)]
    pub generation: u32,
    /// The seed of its work.
    #[arg(long)]
    pub seed: u64,
    /// What the masters are.
    #[arg(long)]
    pub store: Store,
    /// The URL of a master; once for each.
    #[arg(long = "master")]
    pub masters: Vec<String>,
    /// The SQLite file.
    #[arg(long)]
    pub ledger: PathBuf,
    /// The file for its history.
    #[arg(long)]
    pub history: PathBuf,
    /// How many resources there are.
    #[arg(long)]
    pub resources: usize,
    /// How many of its tasks lock each of them.
    #[arg(long)]
    pub tasks: usize,
    /// How many seconds it works, at most.
    #[arg(long)]
    pub lifetime: u64,
    /// Write without the fence.
    #[arg(long)]
    pub unfenced: bool,
    /// Let masters vote without a quarantine.
    #[arg(long)]
    pub no_quarantine: bool,
    /// Lock what the crowd wants, instead of the resources.
    #[arg(long)]
    pub crowd: bool,
    /// Probe whether locks can be acquired, and race with the other services.
    #[arg(long)]
    pub probes: bool,
}

/// What the tasks of a service share.
pub(super) struct Shared {
    pub(super) service: usize,
    pub(super) store: Store,
    pub(super) locks: LockManager,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) journal: Arc<Journal>,
}

impl Shared {
    /// Runs a transaction on a thread that may block.
    pub(super) async fn transaction<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> rusqlite::Result<T> {
        let shared = Arc::clone(self);
        let blocking = move || work(&shared.ledger.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(blocking).await.unwrap()
    }
}

/// Works until the standard input ends: the parent process closed it, or is gone.
///
/// # Errors
///
/// If the history or the ledger cannot be opened, the masters are invalid, or a task fails.
pub async fn serve(args: ServiceArgs) -> Result<(), Box<dyn std::error::Error>> {
    let journal = Arc::new(Journal::create(&args.history)?);
    journal.write(Event::Started { service: args.service, generation: args.generation });
    tracing::subscriber::set_global_default(Log::new(Arc::clone(&journal)))?;
    let ledger = Ledger::open(&args.ledger, !args.unfenced)?;
    // Not `connect`: a service must be able to start while masters are unavailable.
    let locks = builder(args.store, &args.masters, args.no_quarantine).connect_lazy()?;

    let (stop, stopped) = watch::channel(false);
    let stop_at_eof = stop.clone();
    std::thread::spawn(move || {
        _ = std::io::stdin().read(&mut [0]);
        stop_at_eof.send_replace(true);
    });
    let (service, store, ledger) = (args.service, args.store, Mutex::new(ledger));
    let shared = Arc::new(Shared { service, store, locks: locks.clone(), ledger, journal });
    let mut dice = Dice::new(args.seed);
    let mut tasks = JoinSet::new();
    let wanted = if args.crowd { vec![CROWD_RESOURCE.to_owned()] } else { (0..args.resources).map(resource).collect() };
    let workers = wanted.len() * args.tasks;
    for task in 0..workers {
        let (resource, dice) = (wanted[task % wanted.len()].clone(), Dice::new(dice.roll(u64::MAX)));
        let worker = Worker::new(Arc::clone(&shared), resource, task, task / wanted.len(), dice);
        tasks.spawn(worker.work(stopped.clone()));
    }
    if !args.crowd {
        let mut begin = |task: usize| (Dice::new(dice.roll(u64::MAX)), task as u64 * MAX_CYCLES);
        let (adopter, operator) = (begin(workers), begin(workers + 1));
        for task in 0..PERMITS.len() * PERMIT_TASKS {
            let ((index, _), number) = (PERMITS[task % PERMITS.len()], TASKS + task / PERMITS.len());
            let (dice, task) = (begin(0).0, workers + 2 + task);
            let worker = Worker::new(Arc::clone(&shared), resource(index), task, number, dice);
            tasks.spawn(worker.work(stopped.clone()));
        }
        if store.adopts() {
            tasks.spawn(adopt(Arc::clone(&shared), adopter.0, adopter.1, stopped.clone()));
        }
        tasks.spawn(operate(Arc::clone(&shared), operator.0, operator.1, stopped.clone()));
        tasks.spawn(succeed_each_other(Arc::clone(&shared), stopped.clone()));
    }
    if args.probes || args.crowd {
        watch_for_stalls(&shared.journal);
    }
    if args.probes {
        tasks.spawn(probe(Arc::clone(&shared), stopped.clone()));
        tasks.spawn(race(Arc::clone(&shared), stopped.clone()));
    }
    let mut stopping = stopped.clone();
    _ = tokio::time::timeout(Duration::from_secs(args.lifetime), stopping.wait_for(|stopped| *stopped)).await;
    stop.send_replace(true);
    shared.journal.write(Event::Closing);
    // Also wakes the tasks that wait for a lock.
    locks.close();
    let ended = async { while tasks.join_next().await.is_some_and(|ended| ended.is_ok()) {} };
    let in_time = tokio::time::timeout(GRACE, ended).await.is_ok();
    let report = locks.shutdown(GRACE).await;
    shared.journal.write(Event::Ended { revoked: report.revoked });
    if in_time && tasks.is_empty() { Ok(()) } else { Err("a task panicked, or did not end in time".into()) }
}
