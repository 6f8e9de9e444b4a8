//! Sells the same stock with and without distributed locks, and counts what was oversold.

mod signals;

use std::{
    error::Error,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    ops::RangeInclusive,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Parser, Subcommand, builder::RangedI64ValueParser, value_parser};
use inventory::{Config, Mode, Progress, Report, RunError, ServeConfig, run, serve};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::signals::Received;

/// A guarded mode oversold or did not sell everything.
const FAILED: u8 = 1;
/// The run could not be carried out. clap uses the same for bad arguments.
const UNUSABLE: u8 = 2;

/// Sells one product to many buyers through several instances of a shop, with and without
/// distributed locks, and prints what was oversold.
///
/// Needs nothing installed: lock masters are in memory unless --redis is given, the database is a
/// temporary SQLite file.
///
/// Exit status: 0 if no guarded mode oversold and each sold everything it could; 1 if one did not;
/// 2 if the run could not be carried out; 130 after Ctrl-C and 143 after SIGTERM.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Command {
    /// Run the shop as a service, with the lock and the claimed fence, until Ctrl-C or SIGTERM.
    Serve(Serve),
}

#[derive(Args)]
struct Bench {
    /// Units on stock, 1 to 10000.
    #[arg(long, default_value_t = Config::default().stock, value_parser = within(Config::STOCK))]
    stock: u32,
    /// Buyers of one unit each, 1 to 10000.
    #[arg(long, default_value_t = Config::default().buyers, value_parser = within(Config::BUYERS))]
    buyers: u32,
    /// Instances of the shop, 1 to 16.
    #[arg(long, default_value_t = Config::default().instances, value_parser = within(Config::INSTANCES))]
    instances: u32,
    /// Run only this mode. Repeat for several.
    #[arg(long = "mode", value_name = "MODE")]
    modes: Vec<Mode>,
    /// Print the report as JSON instead of the table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    masters: MasterArgs,
}

#[derive(Args)]
struct Serve {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The SQLite file. Without it, a temporary one that is removed at the end.
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    #[command(flatten)]
    masters: MasterArgs,
}

#[derive(Args)]
struct MasterArgs {
    /// A Redis master, such as `redis://127.0.0.1:6379`. Repeat for each of an odd number.
    #[arg(long, value_name = "URL")]
    redis: Vec<String>,
    /// Prefix of the keys on Redis. Always used with the same set of masters.
    #[arg(long, value_name = "PREFIX", default_value = "inventory:")]
    prefix: String,
}

fn within(range: RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    let (from, to) = range.into_inner();
    value_parser!(u32).range(i64::from(from)..=i64::from(to))
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let stop = CancellationToken::new();
    let received = Arc::new(Received::default());
    tokio::spawn({
        let (received, stop) = (Arc::clone(&received), stop.clone());
        async move {
            if let Err(error) = received.watch(stop).await {
                eprintln!("signals are not handled: {error}");
            }
        }
    });

    let outcome = match cli.command {
        Some(Command::Serve(args)) => {
            init_logs("info");
            serve_shop(args, stop).await.map(|()| ExitCode::SUCCESS)
        }
        None => {
            // Paused holders lose their leases, which the locks duly log.
            init_logs("off");
            benchmark(cli.bench, &stop).await.map(|passed| {
                let status = match received.first() {
                    Some(signal) => signal.exit_status(),
                    None if passed => 0,
                    None => FAILED,
                };
                ExitCode::from(status)
            })
        }
    };
    outcome.unwrap_or_else(|error| {
        explain(&error);
        ExitCode::from(UNUSABLE)
    })
}

async fn benchmark(args: Bench, stop: &CancellationToken) -> Result<bool, RunError> {
    let modes = if args.modes.is_empty() { Mode::ALL.to_vec() } else { args.modes };
    let count = modes.len();
    let config = Config {
        stock: args.stock,
        buyers: args.buyers,
        instances: args.instances,
        redis: args.masters.redis,
        prefix: args.masters.prefix,
        modes,
        ..Config::default()
    };
    let mut begun = 0;
    let report = run(&config, stop, |progress| match progress {
        Progress::Started(mode) => {
            begun += 1;
            eprintln!("[{begun}/{count}] {} …", mode.label().trim_start());
        }
        Progress::Finished(row) => {
            let tenths = (row.elapsed_ms + 50) / 100;
            eprintln!("[{begun}/{count}] {}.{} s", tenths / 10, tenths % 10);
        }
        _ => {}
    })
    .await?;
    if let Err(error) = print(&report, args.json) {
        eprintln!("cannot print the report: {error}");
    }
    Ok(report.passed())
}

fn print(report: &Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
        for failure in &report.failures {
            eprintln!("FAILED  {failure}");
        }
    } else {
        write!(out, "{}", report.table())?;
    }
    out.flush()
}

async fn serve_shop(args: Serve, stop: CancellationToken) -> Result<(), RunError> {
    let config = ServeConfig {
        listen: args.listen,
        redis: args.masters.redis,
        prefix: args.masters.prefix,
        database: args.database,
    };
    serve(config, stop.cancelled_owned(), |address| {
        println!("listening on http://{address}");
    })
    .await
}

fn init_logs(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}

fn explain(error: &RunError) {
    eprintln!("inventory: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprintln!("  because {cause}");
        source = cause.source();
    }
}
