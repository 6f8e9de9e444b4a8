//! A scheduled job that runs once in each period, whichever of its instances are alive.
//!
//! ```text
//! export LOCK_URLS=redis://a:6379,redis://b:6379,redis://c:6379     # or postgres://.. or zookeeper://..
//! cargo run -p worker -- report.sqlite     # in several terminals; then kill, freeze and stop some
//! ```
//!
//! - Every instance tries at every tick. The lock lets one of them in; the database says whether there is something to do.
//! - The lock is renewed while the job runs, so that the time to live may be shorter than the job. It is how long the others
//!   wait after a crash, and then they go on where it stopped.
//! - If the lock is lost, the job is cancelled at its next await. If it is frozen instead, and resumes too late, the
//!   database refuses its claim.
//! - A stop lets the job end, and cancels it after a grace.

mod report;

use std::env::{self, VarError};
use std::error::Error;
use std::time::Duration;

use lock_axum::{LockError, LockManager, LockManagerBuilder};
use tokio::time::{MissedTickBehavior, interval};

use crate::report::Report;

/// How often an instance looks whether there is something to do.
const TICK: Duration = Duration::from_millis(200);
/// How long the other instances wait after a crash.
const TTL: Duration = Duration::from_secs(2);
/// Far longer than a run takes. One that hangs must not keep the others out for ever.
const MAX_HOLD: Duration = Duration::from_secs(60);
/// How long a stop waits for a run to end.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let database = env::args().nth(1).ok_or("usage: worker DATABASE")?;
    let locks = match env::var("LOCK_URLS") {
        Ok(urls) => masters(&urls)?.connect().await?,
        Err(VarError::NotPresent) => LockManager::in_memory(), // other instances do not see these locks
        Err(error) => return Err(format!("LOCK_URLS: {error}").into()),
    };
    let report = Report::open(&database)?;

    let mut working = tokio::spawn(work(locks.clone(), report));
    tokio::select! {
        ended = &mut working => return Ok(ended?), // it panicked: whoever supervises this process starts it again
        () = locks.close_on(stop_signal()) => {} // from now on, no run begins
    }
    locks.shutdown(GRACE).await; // waits for a run to end; after the grace it loses its lock, which cancels it
    working.await?;
    Ok(())
}

/// Where the locks are kept: on the masters that these URLs name, or in one ensemble.
fn masters(urls: &str) -> Result<LockManagerBuilder, Box<dyn Error>> {
    match urls.split_once("://") {
        Some(("zookeeper", ensemble)) => Ok(LockManager::builder().zookeeper(ensemble)),
        Some(("redis" | "rediss" | "postgres" | "postgresql", _)) => {
            let (postgres, redis): (Vec<&str>, Vec<&str>) =
                urls.split(',').partition(|url| url.starts_with("postgres"));
            Ok(LockManager::builder().redis(redis).postgres(postgres))
        }
        _ => Err("LOCK_URLS names no master: write redis://.., postgres://.. or zookeeper://.., or unset it to keep the locks in this \
                  process"
            .into()),
    }
}

/// Runs the report whenever it is due and no other instance is at it, until the manager is closed.
async fn work(locks: LockManager, report: Report) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let lock = locks.lock("job:report").ttl(TTL).max_hold(MAX_HOLD).wait(Duration::ZERO);
        match lock.run(async |lease| report.run(&lease).await).await {
            // The report is made, or another instance is at it.
            Ok(Ok(())) | Err(LockError::Contended { .. }) => {}
            Err(LockError::ShuttingDown { .. }) => return,
            // All others leave the rest to a later tick, of whichever instance.
            Err(error) => tracing::warn!(%error, "no lock, or it was lost"),
            Ok(Err(error)) => tracing::warn!(error = &error as &dyn Error, "the run was given up"),
        }
    }
}

/// Completes on Ctrl-C and, on Unix, on SIGTERM.
async fn stop_signal() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = terminated => {} }
}
