//! Benchmarks beside the published peer, from the command line: see `bench --help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum as _};
use lock_bench::{Failure, Part, Plan, Role, draw, run};
use tokio::signal::unix::{SignalKind, signal};

/// Measures the engine beside the published `rslock`: the same servers, the same run, in turns.
///
/// Starts its own redis-servers on loopback ports, and ends them. The table tells each figure, what it is held against, and
/// whether its target is met; the exit status is 0 whatever it says, and 1 if something could not be measured. Takes less than
/// four minutes, with `--quick` less than one. Build with `--release`.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    /// Write the report to this file, too, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure only this; several, or several times. All of it if not given.
    #[arg(long, num_args = 1..)]
    only: Vec<Part>,
    /// Less of everything, and more noise.
    #[arg(long)]
    quick: bool,
    /// Draw how the cost grows into SVG files in this directory.
    #[arg(long)]
    plots: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut options = Options::parse();
    let done = match options.role.take() {
        Some(role) => role.play().await.map(|()| ExitCode::SUCCESS),
        None => bench(options).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("bench: {error}");
        ExitCode::from(2)
    })
}

async fn bench(options: Options) -> Result<ExitCode, Failure> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut parts = if options.only.is_empty() { Part::value_variants().to_vec() } else { options.only };
    if options.plots.is_some() && !parts.contains(&Part::Growth) {
        parts.push(Part::Growth);
    }
    let plan = Plan { quick: options.quick, program: std::env::current_exe()?, parts };
    let running = run(&plan);
    // On a signal the run is dropped where it stands, and its processes end with it.
    let report = tokio::select! {
        report = running => report?,
        _ = interrupt.recv() => return Ok(ExitCode::from(128 + 2)),
        _ = terminate.recv() => return Ok(ExitCode::from(128 + 15)),
    };
    println!("{report}");
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(directory) = options.plots {
        draw(&report.curves, &directory)?;
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
