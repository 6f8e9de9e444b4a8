//! One instance of the shop, on a thread of its own.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use axum::Router;
use lock_axum::LockManager;
use tokio::{net::TcpListener, runtime, sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{RunError, masters::Masters};
use crate::shop::{Database, Store, serve_until};

/// On loopback, a port that is free.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const START_TIMEOUT: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(5);
const BLOCKING_THREADS: Duration = Duration::from_secs(2);
/// How long the remains of a killed instance are kept: longer than a lease of the page. Before, what is dropped would be released.
const DEAD: Duration = Duration::from_millis(1_200);
/// More than twice [`GRACE`], which [`serve_until`] may take, and [`BLOCKING_THREADS`].
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// What an instance is built from.
///
/// Instances share the masters and the database and nothing else, like processes on different
/// machines.
pub(crate) struct Blueprint {
    pub(crate) masters: Masters,
    pub(crate) prefix: String,
    pub(crate) database: Database,
    /// Whether commits wait for the disk. They need not if the database is a temporary file.
    pub(crate) durable: bool,
    pub(crate) listen: SocketAddr,
    /// Builds the routes of the instance, on its thread.
    pub(crate) routes: BuildRoutes,
}

type BuildRoutes = Box<dyn FnOnce(Store, &LockManager) -> Router + Send>;

/// A running instance. Dropping it stops it without waiting for the end.
pub(crate) struct Instance {
    address: SocketAddr,
    stop: DropGuard,
    kill: CancellationToken,
    ended: oneshot::Receiver<Result<(), RunError>>,
}

impl Instance {
    /// Starts an instance and waits until it listens.
    pub(crate) async fn start(blueprint: Blueprint) -> Result<Self, RunError> {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let kill = CancellationToken::new();
        let killed = kill.clone();
        let (listening, address) = oneshot::channel();
        let (done, ended) = oneshot::channel();
        thread::Builder::new()
            .name("instance".to_owned())
            .spawn(move || {
                // The receiver is gone if the run was dropped.
                let _ = done.send(live(blueprint, listening, stopping, &killed));
            })
            .map_err(RunError::Instance)?;

        let stop = stop.drop_guard();
        match timeout(START_TIMEOUT, address).await {
            Ok(Ok(address)) => Ok(Self { address, stop, kill, ended }),
            Ok(Err(_)) => Err(outcome(ended, START_TIMEOUT).await.err().unwrap_or(RunError::Timeout("start"))),
            Err(_) => Err(RunError::Timeout("start")),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shuts the instance down gracefully and waits for its end, for at most [`STOP_TIMEOUT`].
    pub(crate) async fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        outcome(self.ended, STOP_TIMEOUT).await
    }

    /// Ends the instance as a power failure does: from now on it answers nobody, and its locks are not released but end with
    /// their leases.
    ///
    /// Waits until the instance is gone, which takes [`DEAD`] and as long as it stands still.
    pub(crate) async fn kill(self) -> Result<(), RunError> {
        self.kill.cancel();
        outcome(self.ended, STOP_TIMEOUT).await
    }
}

async fn outcome(ended: oneshot::Receiver<Result<(), RunError>>, limit: Duration) -> Result<(), RunError> {
    match timeout(limit, ended).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(RunError::Instance(io::Error::other("its thread panicked"))),
        Err(_) => Err(RunError::Timeout("stop")),
    }
}

/// Runs an instance on the current thread, from start to end.
fn live(
    blueprint: Blueprint,
    listening: oneshot::Sender<SocketAddr>,
    stop: CancellationToken,
    killed: &CancellationToken,
) -> Result<(), RunError> {
    // A single thread, so that a pause stops the whole instance: see `pauses`.
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::Instance)?;
    let served = runtime.block_on(killed.run_until_cancelled(serve(blueprint, listening, stop)));
    let outcome = served.unwrap_or_else(|| {
        thread::sleep(DEAD);
        Ok(())
    });
    // Dropping the runtime would wait for its blocking threads without a limit.
    runtime.shutdown_timeout(BLOCKING_THREADS);
    outcome
}

async fn serve(
    blueprint: Blueprint,
    listening: oneshot::Sender<SocketAddr>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let Blueprint { masters, prefix, database, durable, listen, routes } = blueprint;
    let locks = masters.connect(&prefix).await?;
    let store = Store::open(&database).await?;
    if !durable {
        store.skip_disk_sync().await?;
    }
    let router = routes(store, &locks);

    let listen_failed = |source| RunError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(listen_failed)?;
    let address = listener.local_addr().map_err(listen_failed)?;
    let _ = listening.send(address);

    serve_until(stop.cancelled_owned(), listener, router, &locks, GRACE).await.map_err(RunError::Instance)?;
    Ok(())
}
