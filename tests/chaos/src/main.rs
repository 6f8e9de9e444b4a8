//! The command line of the chaos tests: see `chaos --help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use lock_chaos::{Broken, Plan, ServiceArgs, Store, membership, run, serve};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

/// Injects faults into the servers of a store and three service processes, and checks the recorded histories.
///
/// Exits with 0 if no violation was found, and with 1 if there was one or if the faults had no effect. The programs of
/// the store must be installed. A seed decides the order of the faults. Real processes do not replay identically, so run a seed that
/// found something several times.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    /// The servers: five of Redis, three Redis Clusters, three of PostgreSQL, or an ensemble of three of ZooKeeper. Those of PostgreSQL write to files, so that a disk that others keep busy slows
    /// them down beyond what the checks allow: set TMPDIR to a directory in memory then, such as /dev/shm.
    ///
    /// In ZooKeeper a lock ends with the session of its process, in 1.9 s here, one connection carries everything, and
    /// nothing is adopted. So faults have effects for longer there, no wake-ups are hurt alone, and nobody delegates.
    #[arg(long, default_value = "redis")]
    store: Store,
    /// One server, instead of a quorum.
    #[arg(long, conflicts_with = "membership")]
    alone: bool,
    /// The seed that decides the faults. Random by default.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seconds to inject faults for, at least. Phases that have begun are completed, which takes up to half a
    /// minute more. In less than four seconds there are faults, but no phases of other kinds, and not all faults. With 0,
    /// each fault happens once.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Directory for the histories and the database. It must be empty or not exist. By default they are in a temporary
    /// directory, which is kept only if the run fails.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Break something on purpose. The run must fail.
    #[arg(long)]
    broken: Option<Broken>,
    /// Replace masters, restore backups, promote standbys, change the durability and set clocks, instead of the faults
    /// of processes and links.
    #[arg(long, conflicts_with = "broken")]
    membership: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Run as one of the services. Used by the run itself.
    #[command(hide = true)]
    Service(ServiceArgs),
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let mut options = Options::parse();
    let done = match options.role.take() {
        Some(Role::Service(args)) => serve(args).await.map(|()| ExitCode::SUCCESS),
        None => chaos(options).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("chaos: {error}");
        ExitCode::from(2)
    })
}

async fn chaos(options: Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let is_membership = options.membership || options.broken == Some(Broken::NoQuarantine);
    let needs_redis = is_membership || options.broken.is_some_and(|broken| broken != Broken::Unfenced);
    if needs_redis && options.store != Store::Redis {
        return Err("--membership and all of --broken but `unfenced` are for --store redis".into());
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let random_seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos();
    let seed = options.seed.unwrap_or_else(|| random_seed.into());
    let mut temporary = None;
    let directory = match options.history {
        Some(directory) => {
            std::fs::create_dir_all(&directory)?;
            if std::fs::read_dir(&directory)?.next().is_some() {
                return Err(format!("{} is not empty", directory.display()).into());
            }
            directory
        }
        None => temporary.insert(tempfile::tempdir()?).path().to_owned(),
    };
    let (seconds, broken, program) = (options.seconds, options.broken, std::env::current_exe()?);
    let broken_flag = broken.as_ref().and_then(ValueEnum::to_possible_value);
    let broken_flag = broken_flag.map(|value| format!(" --broken {}", value.get_name())).unwrap_or_default();
    let flags = if options.membership { " --membership" } else { &broken_flag };
    let (store, alone) = (options.store, if options.alone { " --alone" } else { "" });
    let rerun = format!("{alone} --seed {seed} --seconds {seconds}{flags}");
    let rerun = format!("cargo run --release -p lock-chaos -- --store {}{rerun}", store.name());
    eprintln!("chaos: to run this again: {rerun}");
    let plan = Plan { store, alone: options.alone, seed, seconds, program, directory, broken };
    let running = async {
        if is_membership {
            let report = membership::run(&plan).await;
            Ok((printed(&report, options.json)?, report.is_clean()))
        } else {
            let report = run(&plan).await;
            Ok((printed(&report, options.json)?, report.is_clean()))
        }
    };
    // On a signal the run is dropped, which ends its processes.
    let (text, is_clean) = tokio::select! {
        done = running => done.map_err(|error: serde_json::Error| error)?,
        _ = interrupt.recv() => return Ok(ExitCode::from(128 + 2)),
        _ = terminate.recv() => return Ok(ExitCode::from(128 + 15)),
    };
    println!("{text}");
    if is_clean {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(temporary) = temporary {
        _ = temporary.keep();
    }
    eprintln!("chaos: failed. The histories are in {}; to run this again: {rerun}", plan.directory.display());
    Ok(ExitCode::from(1))
}

fn printed(report: &(impl Serialize + std::fmt::Display), json: bool) -> serde_json::Result<String> {
    if json { serde_json::to_string_pretty(report) } else { Ok(report.to_string()) }
}
