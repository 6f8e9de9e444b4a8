//! The command line of the benchmarks: see `bench --help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum as _};
use lock_bench::{BoxError, Part, Plan, Role, draw, run};
use tokio::signal::unix::{SignalKind, signal};

/// Measures the engine and the published `rslock` alternately, on the same servers in the same run.
///
/// Starts redis-servers on loopback ports, and ends them. The table has each figure, its baseline, and whether its
/// target is met. The exit status is 0 even if targets are missed, and 1 if something could not be measured. Takes a
/// quarter of an hour, with `--quick` less. Build with `--release`.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    /// Also write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write the table to this file, as Markdown.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Measure only these parts. All parts by default.
    #[arg(long, num_args = 1..)]
    only: Vec<Part>,
    /// Fewer and shorter rounds, and more noise.
    #[arg(long)]
    quick: bool,
    /// Draw the scaling curves as SVG files into this directory.
    #[arg(long)]
    plots: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut options = Options::parse();
    let done = match options.role.take() {
        Some(role) => role.run().await.map(|()| ExitCode::SUCCESS),
        None => bench(options).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("bench: {error}");
        ExitCode::from(2)
    })
}

async fn bench(options: Options) -> Result<ExitCode, BoxError> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut parts = if options.only.is_empty() { Part::value_variants().to_vec() } else { options.only };
    if options.plots.is_some() && !parts.contains(&Part::Scaling) {
        parts.push(Part::Scaling);
    }
    let plan = Plan { quick: options.quick, program: std::env::current_exe()?, parts };
    let running = run(&plan);
    // On a signal the run is dropped, which ends its processes.
    let report = tokio::select! {
        report = running => report?,
        _ = interrupt.recv() => return Ok(ExitCode::from(128 + 2)),
        _ = terminate.recv() => return Ok(ExitCode::from(128 + 15)),
    };
    println!("{report}");
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(path) = options.table {
        let arguments: String = std::env::args().skip(1).map(|argument| format!(" {argument}")).collect();
        std::fs::write(path, report.to_markdown(&format!("cargo run --release -p lock-bench --{arguments}")))?;
    }
    if let Some(directory) = options.plots {
        draw(&report.curves, &directory)?;
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
