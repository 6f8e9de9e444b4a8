use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::{
    Config, Mode, Report, Row, RunError,
    instance::{ANY_PORT, Blueprint, Instance},
    ledger,
    load::{self, Load},
    masters::Masters,
    pauses::PausingProvider,
    variants,
};
use crate::shop::{Database, Shop, SimulatedProvider, Store};

/// What [`run`] reports while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A mode starts.
    Started(Mode),
    /// A mode has finished.
    Finished(&'a Row),
}

/// Runs the modes of `config`, one after the other, and reports what was sold.
///
/// Each instance has its own thread. Buyers run on the caller's runtime, which must have its IO and
/// time drivers enabled. Without a database in `config`, there is a temporary file that is
/// removed at the end.
///
/// When `stop` is cancelled, buyers send no new requests, those in flight are awaited, and the
/// report contains what was measured until then.
///
/// # Errors
///
/// [`RunError`] if the run cannot be carried out. That a mode oversold is not an error; see
/// [`Report::passed`].
///
/// # Cancel safety
///
/// If the future is dropped, the instances stop in the background.
///
/// # Examples
///
/// ```
/// use inventory::{Config, Mode, run};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), inventory::RunError> {
/// let config = Config { stock: 5, buyers: 10, modes: vec![Mode::DistributedLock], ..Config::default() };
/// let report = run(&config, &CancellationToken::new(), |_| {}).await?;
/// assert!(report.passed());
/// assert_eq!(report.rows[0].orders, 5);
/// # Ok(()) }
/// ```
pub async fn run(
    config: &Config,
    stop: &CancellationToken,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Report, RunError> {
    config.check()?;
    let database_failed = |error: std::io::Error| RunError::Database(error.into());
    let directory = tempfile::tempdir().map_err(database_failed)?;
    let file = Database::Sqlite(directory.path().join("shop.sqlite"));
    let database = config.database.as_ref().unwrap_or(&file);
    let masters = Masters::new(&config.locks);
    if config.modes.iter().any(|mode| mode.takes_lock()) {
        masters.clone().check(&config.prefix).await?;
    }
    let mut report = Report::new(config, masters.describe());

    // A new SKU for each run, because the masters may still have locks of an earlier one.
    let run_id: u32 = rand::random();
    for &mode in &config.modes {
        if stop.is_cancelled() {
            break;
        }
        progress(Progress::Started(mode));
        let sku = format!("{}-{run_id:08x}", mode.name());
        let row = run_mode(config, mode, &masters, database, sku, stop).await?;
        progress(Progress::Finished(&row));
        report.push(row);
    }
    report.interrupted = report.rows.len() < config.modes.len() || report.rows.iter().any(|row| !row.complete);
    directory.close().map_err(database_failed)?;
    Ok(report)
}

async fn run_mode(
    config: &Config,
    mode: Mode,
    masters: &Masters,
    database: &Database,
    sku: String,
    stop: &CancellationToken,
) -> Result<Row, RunError> {
    let durable = config.database.is_some();
    let store = Store::open(database).await?;
    if !durable {
        store.skip_disk_sync().await?;
    }
    ledger::seed(&store, &sku, config.stock).await?;
    let payment = config.payment;
    let blueprint = |number| Blueprint {
        masters: masters.clone(),
        prefix: config.prefix.clone(),
        database: database.clone(),
        durable,
        listen: ANY_PORT,
        routes: Box::new(move |store, locks| variants::router(mode, shop(mode, store, payment, number), locks)),
    };
    let starts = (0..config.instances as usize).map(|number| Instance::start(blueprint(number)));
    let instances = try_join_all(starts).await?;

    let start = Instant::now();
    let load = Load {
        buyers: config.buyers,
        concurrency: config.concurrency,
        instances: instances.iter().map(Instance::address).collect(),
        sku,
        deadline: start + time_limit(config),
    };
    let outcome = load::drive(&load, stop).await;
    let elapsed = start.elapsed();

    try_join_all(instances.into_iter().map(Instance::stop)).await?;
    // The instances have stopped, so these numbers are final.
    let sold = ledger::sold(&store, &load.sku).await?;
    let complete = !(stop.is_cancelled() && outcome.answers.stopped > 0);
    Ok(Row::new(mode, config, outcome, sold, elapsed, complete))
}

/// The shop of instance number `number`, whose payments pause if the mode says so.
fn shop(mode: Mode, store: Store, payment: Duration, number: usize) -> Shop {
    if mode.pauses() {
        Shop::new(store, PausingProvider::new(payment, number))
    } else {
        Shop::new(store, SimulatedProvider::new(payment))
    }
}

/// Ends a mode that hangs. Far more than any mode needs, so it does not affect the result.
fn time_limit(config: &Config) -> Duration {
    Duration::from_secs(30) + Duration::from_millis(200) * (config.stock + config.buyers)
}
