//! The roles of child processes: the binary, called with one of them, exchanges lines with the run over its standard
//! input and output. It ends when its input ends.

use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::future::try_join_all;
use lock_core::{LockGuard, LockManager};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::task::JoinSet;

use super::BoxError;
use super::burst::{Bursts, at_once};
use super::contender::Contender;
use super::load::{Load, Release, Resources};

/// What a child process does.
#[derive(Clone, Debug, Subcommand)]
pub enum Role {
    /// Lock and unlock one resource with several tasks of several instances.
    #[command(hide = true)]
    Load(LoadArgs),
    /// Wait for a lock that another process holds, and report when it was granted.
    #[command(hide = true)]
    Waiter(WaiterArgs),
    /// Hold many locks.
    #[command(hide = true)]
    Holder(HolderArgs),
    /// Take many free locks at once.
    #[command(hide = true)]
    Burst(BurstArgs),
}

/// What to use, on which masters, and what to lock.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The contender.
    #[arg(long)]
    pub contender: Contender,
    /// The URL of a master; once for each.
    #[arg(long = "master")]
    pub masters: Vec<String>,
    /// The resource to lock, or the stem of several.
    #[arg(long)]
    pub resource: String,
}

/// The arguments of [`Role::Load`].
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// What to use, where, and what to lock.
    #[command(flatten)]
    pub target: Target,
    /// How many instances of the contender, each with connections of its own.
    #[arg(long)]
    pub instances: usize,
    /// How many tasks each instance has.
    #[arg(long)]
    pub tasks: usize,
    /// For how many milliseconds.
    #[arg(long)]
    pub millis: u64,
    /// How many milliseconds each task works while it holds the lock.
    #[arg(long)]
    pub inside: u64,
}

/// The arguments of [`Role::Waiter`].
#[derive(Args, Clone, Debug)]
pub struct WaiterArgs {
    /// What to use, where, and what to lock.
    #[command(flatten)]
    pub target: Target,
}

/// The arguments of [`Role::Holder`].
#[derive(Args, Clone, Debug)]
pub struct HolderArgs {
    /// What to use, where, and what to lock.
    #[command(flatten)]
    pub target: Target,
    /// How many locks.
    #[arg(long)]
    pub locks: usize,
    /// For how many milliseconds.
    #[arg(long)]
    pub millis: u64,
}

/// The arguments of [`Role::Burst`].
#[derive(Args, Clone, Debug)]
pub struct BurstArgs {
    /// What to use, where, and what to lock.
    #[command(flatten)]
    pub target: Target,
    /// How many locks are taken at once.
    #[arg(long)]
    pub tasks: usize,
    /// How many bursts, one after the other.
    #[arg(long)]
    pub bursts: usize,
}

/// What [`Role::Holder`] reports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Holding {
    /// By how many bytes the process grew.
    pub(super) grown: f64,
    /// The processor time for each second in which the locks were held.
    pub(super) cpu: f64,
    /// How many seconds it took to take them.
    pub(super) seconds: f64,
}

/// How long a waiter waits at most: the peer would wait forever.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// The time to live of the held locks: they are renewed after a third of it.
const HELD_TTL: Duration = Duration::from_secs(30);
/// How many tasks take the locks.
const TAKERS: usize = 64;

impl Role {
    /// Plays the role.
    ///
    /// # Errors
    ///
    /// If the masters cannot be reached, a lock fails, or the run does not speak the protocol.
    pub async fn run(self) -> Result<(), BoxError> {
        let mut input = BufReader::new(tokio::io::stdin()).lines();
        match self {
            Self::Load(args) => load(args, &mut input).await,
            Self::Waiter(args) => wait(args, &mut input).await,
            Self::Holder(args) => hold(args, &mut input).await,
            Self::Burst(args) => burst(args, &mut input).await,
        }
    }
}

type Input = Lines<BufReader<Stdin>>;

/// Reports that it is ready, and runs the load on every instance when it gets a line.
async fn load(args: LoadArgs, input: &mut Input) -> Result<(), BoxError> {
    let Target { contender, masters, resource } = args.target;
    let instances = try_join_all((0..args.instances).map(|_| contender.connect(&masters))).await?;
    report(&"ready")?;
    if input.next_line().await?.is_some() {
        let (length, inside) = (Duration::from_millis(args.millis), Duration::from_millis(args.inside));
        let load =
            Load { tasks: args.tasks, length, resources: Resources::One(resource), release: Release::Awaited, inside };
        report(&try_join_all(instances.iter().map(|locks| load.run(locks))).await?)?;
    }
    Ok(())
}

/// For each line: waits for the lock, releases it, and reports when it was granted.
async fn wait(args: WaiterArgs, input: &mut Input) -> Result<(), BoxError> {
    let Target { contender, masters, resource } = args.target;
    let locks = contender.connect(&masters).await?;
    report(&"ready")?;
    while input.next_line().await?.is_some() {
        report(&"waiting")?;
        let (locks, resource) = (locks.clone(), resource.clone());
        // In a task, as a handler is: a thread that blocks on a future is woken by the runtime's threads, which takes longer.
        let waiting = tokio::spawn(async move {
            let held = tokio::time::timeout(MAX_WAIT, locks.lock(&resource)).await??;
            let granted = now();
            held.release().await?;
            Ok::<_, BoxError>(granted)
        });
        report(&waiting.await??)?;
    }
    Ok(())
}

/// Takes the locks, holds them, and reports the cost.
async fn hold(args: HolderArgs, input: &mut Input) -> Result<(), BoxError> {
    let Target { masters, resource, .. } = args.target;
    let locks = LockManager::builder().redis(&masters).ttl(HELD_TTL).node_timeout(MAX_WAIT / 10).connect().await?;
    report(&"ready")?;
    if input.next_line().await?.is_none() {
        return Ok(());
    }
    let (before, started) = (resident()?, now());
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let (locks, resource, count) = (locks.clone(), resource.clone(), args.locks);
        takers.spawn(async move {
            let mut held: Vec<LockGuard> = Vec::with_capacity(count / TAKERS + 1);
            for index in (taker..count).step_by(TAKERS) {
                held.push(locks.lock(format!("{resource}:{index}")).acquire().await?);
            }
            Ok::<_, BoxError>(held)
        });
    }
    let mut held = Vec::with_capacity(TAKERS);
    while let Some(taken) = takers.join_next().await {
        held.push(taken??);
    }
    let seconds = now() - started;
    let grown = resident()? - before;
    let (processor, since) = (processor_time(), now());
    tokio::time::sleep(Duration::from_millis(args.millis)).await;
    let cpu = (processor_time() - processor) / (now() - since);
    report(&Holding { grown, cpu, seconds })?;
    // Without releasing the locks: the servers end next.
    std::process::exit(0)
}

/// Takes free locks at once, several times, and reports what became of them.
async fn burst(args: BurstArgs, input: &mut Input) -> Result<(), BoxError> {
    let Target { contender, masters, resource } = args.target;
    let locks = contender.connect(&masters).await?;
    report(&"ready")?;
    if input.next_line().await?.is_some() {
        let began = now();
        let mut all = Bursts::default();
        for burst in 0..args.bursts {
            let (done, failures) = at_once(&locks, args.tasks, &format!("{resource}:{burst}")).await?;
            all.done += done;
            all.failures += failures;
        }
        report(&Bursts { seconds: now() - began, peak: peak_resident()?, ..all })?;
    }
    Ok(())
}

fn report(value: &impl Serialize) -> Result<(), BoxError> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// The monotonic clock of the machine, in seconds: the same for all processes.
pub(super) fn now() -> f64 {
    seconds(ClockId::Monotonic)
}

fn processor_time() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most resident memory that this process has had, in bytes.
fn peak_resident() -> Result<f64, BoxError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    Ok(peak.ok_or("/proc/self/status has no peak of the resident memory")?.trim().parse::<f64>()? * 1024.0)
}

/// The resident memory of this process, in bytes.
fn resident() -> Result<f64, BoxError> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = pages.split(' ').nth(1).ok_or("/proc/self/statm has no resident pages")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
