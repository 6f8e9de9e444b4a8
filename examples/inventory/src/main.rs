//! Sells the same stock with and without distributed locks, and prints how many units were oversold.

mod args;

use std::{
    env,
    error::Error,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
};

use clap::Parser;
use inventory::{
    Config, Mode, Progress, Report, RunError, ServeConfig, Signal, SignalWatcher, install_recorder, run, serve, try_out,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::args::{BenchArgs, Cli, Command, ServeArgs, TrialArgs};

/// Exit status if a guarded mode oversold or left units unsold.
const BROKEN_PROMISE: u8 = 1;
/// Exit status if the run failed. clap uses the same status for invalid arguments.
const RUN_FAILED: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let stop = CancellationToken::new();
    let signals = Arc::new(SignalWatcher::default());
    tokio::spawn({
        let (signals, stop) = (Arc::clone(&signals), stop.clone());
        async move {
            if let Err(error) = signals.watch(stop).await {
                eprintln!("cannot handle signals: {error}");
            }
        }
    });

    let outcome = match cli.command {
        Some(Command::Serve(args)) => {
            init_logs(LevelFilter::INFO);
            serve_shop(args, stop).await.map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Trial(args)) => {
            // Handlers that stand still lose their leases on purpose.
            init_logs(LevelFilter::OFF);
            tokio::select! {
                tried = try_handlers(&args) => tried.map(|passed| {
                    ExitCode::from(if passed { 0 } else { BROKEN_PROMISE })
                }),
                () = stop.cancelled() => Ok(ExitCode::from(signals.first().map_or(RUN_FAILED, Signal::exit_status))),
            }
        }
        None => {
            // Off by default: holders that pause lose their leases on purpose, and each loss is logged.
            init_logs(LevelFilter::OFF);
            benchmark(cli.bench, &stop).await.map(|passed| {
                let status = match signals.first() {
                    Some(signal) => signal.exit_status(),
                    None if passed => 0,
                    None => BROKEN_PROMISE,
                };
                ExitCode::from(status)
            })
        }
    };
    outcome.unwrap_or_else(|error| {
        print_with_causes(&error);
        ExitCode::from(RUN_FAILED)
    })
}

async fn benchmark(args: BenchArgs, stop: &CancellationToken) -> Result<bool, RunError> {
    let modes = if args.modes.is_empty() { Mode::ALL.to_vec() } else { args.modes };
    let count = modes.len();
    let config = Config {
        stock: args.stock,
        buyers: args.buyers,
        instances: args.instances,
        prefix: args.masters.prefix.clone(),
        locks: args.masters.store(),
        database: args.database.database,
        modes,
        ..Config::default()
    };
    let mut started = 0;
    let report = run(&config, stop, |progress| match progress {
        Progress::Started(mode) => {
            started += 1;
            eprintln!("[{started}/{count}] {} …", mode.label().trim_start());
        }
        Progress::Finished(row) => {
            let tenths = (row.elapsed_ms + 50) / 100;
            eprintln!("[{started}/{count}] {}.{} s", tenths / 10, tenths % 10);
        }
        _ => {}
    })
    .await?;
    if let Err(error) = print(&report, args.json) {
        eprintln!("cannot print the report: {error}");
    }
    Ok(report.passed())
}

/// On a thread of its own, which ends with the process.
async fn try_handlers(args: &TrialArgs) -> Result<bool, RunError> {
    let (sender, tried) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || _ = sender.send(try_out()));
    let failed = || io::Error::other("the trial panicked");
    let report = tried.await.unwrap_or_else(|_| Err(failed())).map_err(RunError::Instance)?;
    let mut out = io::stdout().lock();
    let printed = if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write!(out, "{report}")
    };
    if let Err(error) = printed {
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

async fn serve_shop(args: ServeArgs, stop: CancellationToken) -> Result<(), RunError> {
    // Before the first manager: a metric stays with the recorder that is there when it is first recorded.
    let metrics = install_recorder()?;
    let config = ServeConfig {
        listen: args.listen,
        prefix: args.masters.prefix.clone(),
        locks: args.masters.store(),
        database: args.database.database,
        public: args.public,
        metrics,
    };
    serve(config, stop.cancelled_owned(), |address| {
        print_where_to_look(address);
    })
    .await
}

fn print_where_to_look(address: SocketAddr) {
    println!("listening on http://{address}");
    println!("Open it in a browser, or try:");
    println!("  curl http://{address}/readyz");
    println!("  curl http://{address}/stock/apple");
    println!("  curl --json '{{\"quantity\":1}}' http://{address}/stock/apple/deduct");
}

/// Logs to standard error what `RUST_LOG` asks for, such as `lock_core=debug,info`.
fn init_logs(default: LevelFilter) {
    let asked = env::var("RUST_LOG").ok().and_then(|targets| targets.parse().ok());
    let targets = asked.unwrap_or_else(|| Targets::new().with_default(default));
    let format = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry().with(format).with(targets).init();
}

fn print_with_causes(error: &RunError) {
    eprintln!("inventory: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprintln!("  caused by: {cause}");
        source = cause.source();
    }
}
