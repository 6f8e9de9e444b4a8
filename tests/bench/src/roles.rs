//! What other processes do for a part: the binary, called with one of these, talks to the run by lines on its standard input
//! and output. It ends when its input ends.

use std::time::Duration;

use clap::{Args, Subcommand};
use lock_core::{LockGuard, LockManager};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::task::JoinSet;

use super::Failure;
use super::contender::Contender;
use super::load::{Keys, Load, Release};

/// What another process does.
#[derive(Clone, Debug, Subcommand)]
pub enum Role {
    /// Lock and unlock one key with several tasks.
    #[command(hide = true)]
    Load(LoadArgs),
    /// Wait for a lock that is held elsewhere, and tell when it came.
    #[command(hide = true)]
    Waiter(WaiterArgs),
    /// Hold many locks.
    #[command(hide = true)]
    Holder(HolderArgs),
}

/// Who is to be used, on which masters, and what is to be locked.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Who.
    #[arg(long)]
    pub contender: Contender,
    /// The URL of a master; once for each.
    #[arg(long = "master")]
    pub masters: Vec<String>,
    /// What is to be locked.
    #[arg(long)]
    pub key: String,
}

/// What [`Role::Load`] is told.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Who, where, what.
    #[command(flatten)]
    pub target: Target,
    /// How many tasks.
    #[arg(long)]
    pub tasks: usize,
    /// For how long.
    #[arg(long)]
    pub millis: u64,
    /// How many milliseconds each works with the lock.
    #[arg(long)]
    pub inside: u64,
}

/// What [`Role::Waiter`] is told.
#[derive(Args, Clone, Debug)]
pub struct WaiterArgs {
    /// Who, where, what.
    #[command(flatten)]
    pub target: Target,
}

/// What [`Role::Holder`] is told.
#[derive(Args, Clone, Debug)]
pub struct HolderArgs {
    /// Who, where, what.
    #[command(flatten)]
    pub target: Target,
    /// How many locks.
    #[arg(long)]
    pub locks: usize,
    /// For how long.
    #[arg(long)]
    pub millis: u64,
}

/// What [`Role::Holder`] tells.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Holding {
    /// How much the process grew by, in bytes.
    pub(super) grown: f64,
    /// The processor time that went by for each second while the locks were held.
    pub(super) cpu: f64,
    /// How long it took to take them.
    pub(super) seconds: f64,
}

/// How long a waiter waits at most: the peer would wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time to live of the locks that are held: they are renewed every third of it.
const HELD_TTL: Duration = Duration::from_secs(30);
/// How many tasks take the locks that are to be held.
const TAKERS: usize = 64;

impl Role {
    /// Plays it.
    ///
    /// # Errors
    ///
    /// What keeps it from being played.
    pub async fn play(self) -> Result<(), Failure> {
        let mut input = BufReader::new(tokio::io::stdin()).lines();
        match self {
            Self::Load(args) => load(args, &mut input).await,
            Self::Waiter(args) => wait(args, &mut input).await,
            Self::Holder(args) => hold(args, &mut input).await,
        }
    }
}

type Input = Lines<BufReader<Stdin>>;

/// Says that it is ready, and starts when it is told to.
async fn load(args: LoadArgs, input: &mut Input) -> Result<(), Failure> {
    let Target { contender, masters, key } = args.target;
    let locks = contender.connect(&masters).await?;
    say(&"ready")?;
    if input.next_line().await?.is_some() {
        let (length, inside) = (Duration::from_millis(args.millis), Duration::from_millis(args.inside));
        let load = Load { tasks: args.tasks, length, keys: Keys::One(key), release: Release::Awaited, inside };
        say(&load.run(&locks).await?)?;
    }
    Ok(())
}

/// For each line: waits for the lock, tells when it came, and releases it.
async fn wait(args: WaiterArgs, input: &mut Input) -> Result<(), Failure> {
    let Target { contender, masters, key } = args.target;
    let locks = contender.connect(&masters).await?;
    say(&"ready")?;
    while input.next_line().await?.is_some() {
        say(&"waiting")?;
        let held = tokio::time::timeout(PATIENCE, locks.lock(&key)).await??;
        let came = now();
        held.release().await?;
        say(&came)?;
    }
    Ok(())
}

/// Takes the locks, holds them, and tells what that cost.
async fn hold(args: HolderArgs, input: &mut Input) -> Result<(), Failure> {
    let Target { masters, key, .. } = args.target;
    let locks = LockManager::builder().redis(&masters).ttl(HELD_TTL).node_timeout(PATIENCE / 10).connect().await?;
    say(&"ready")?;
    if input.next_line().await?.is_none() {
        return Ok(());
    }
    let (before, started) = (resident()?, now());
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let (locks, key, count) = (locks.clone(), key.clone(), args.locks);
        takers.spawn(async move {
            let mut held: Vec<LockGuard> = Vec::with_capacity(count / TAKERS + 1);
            for number in (taker..count).step_by(TAKERS) {
                held.push(locks.lock(format!("{key}:{number}")).acquire().await?);
            }
            Ok::<_, Failure>(held)
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
    say(&Holding { grown, cpu, seconds })?;
    // Nobody waits for these: the servers end next.
    std::process::exit(0)
}

fn say(what: &impl Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// The machine's monotonic clock, in seconds: the same for all processes.
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

/// How much memory this process has, in bytes.
fn resident() -> Result<f64, Failure> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = pages.split(' ').nth(1).ok_or("no resident pages are told")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
