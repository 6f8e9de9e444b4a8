//! One instance of the service, in a thread of its own.

use std::{io, net::SocketAddr, path::PathBuf, thread, time::Duration};

use axum::{Extension, Router};
use tokio::{net::TcpListener, runtime, sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Mode, RunError, handlers, masters::Masters, pauses::Pauses, purchase::Shop, server::serve_until, store::Store,
};

const START: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_secs(5);
/// Both drains of [`serve_until`], the blocking threads, and some air.
const STOP: Duration = Duration::from_secs(15);
const BLOCKING_THREADS: Duration = Duration::from_secs(2);

/// What an instance is made of. It shares the masters and the database file with the others, and
/// nothing else: as processes on different machines would.
#[derive(Clone)]
pub(crate) struct Blueprint {
    /// Counts from 0.
    pub(crate) number: usize,
    pub(crate) mode: Mode,
    pub(crate) masters: Masters,
    pub(crate) prefix: String,
    pub(crate) database: PathBuf,
    pub(crate) payment: Duration,
}

/// A running instance. Dropping it stops it without waiting.
pub(crate) struct Instance {
    address: SocketAddr,
    stop: DropGuard,
    ended: oneshot::Receiver<Result<(), RunError>>,
}

impl Instance {
    /// Starts an instance and waits until it listens.
    pub(crate) async fn start(blueprint: Blueprint) -> Result<Self, RunError> {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let (listening, address) = oneshot::channel();
        let (done, ended) = oneshot::channel();
        thread::Builder::new()
            .name("instance".to_owned())
            .spawn(move || {
                // Nobody listens any more if the run was abandoned.
                let _ = done.send(live(blueprint, listening, stopping));
            })
            .map_err(RunError::Instance)?;

        let stop = stop.drop_guard();
        match timeout(START, address).await {
            Ok(Ok(address)) => Ok(Self { address, stop, ended }),
            Ok(Err(_)) => Err(end_of(ended, START).await.err().unwrap_or(RunError::Timeout("start"))),
            Err(_) => Err(RunError::Timeout("start")),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drains and stops it, within a bounded time.
    pub(crate) async fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        end_of(self.ended, STOP).await
    }
}

async fn end_of(ended: oneshot::Receiver<Result<(), RunError>>, limit: Duration) -> Result<(), RunError> {
    match timeout(limit, ended).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(RunError::Instance(io::Error::other("its thread panicked"))),
        Err(_) => Err(RunError::Timeout("stop")),
    }
}

/// The life of an instance, on its own thread.
fn live(blueprint: Blueprint, listening: oneshot::Sender<SocketAddr>, stop: CancellationToken) -> Result<(), RunError> {
    // One thread for everything, so that a pause stops all of the instance: see `pauses`.
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::Instance)?;
    let outcome = runtime.block_on(serve(blueprint, listening, stop));
    // Dropping the runtime would wait for its blocking threads without a bound.
    runtime.shutdown_timeout(BLOCKING_THREADS);
    outcome
}

async fn serve(
    blueprint: Blueprint,
    listening: oneshot::Sender<SocketAddr>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let locks = blueprint.masters.connect(&blueprint.prefix).await?;
    let store = Store::open(&blueprint.database, false).await?;
    let pauses = if blueprint.mode.pauses() { Pauses::of_instance(blueprint.number) } else { Pauses::never() };
    let shop = Shop::new(store, blueprint.payment, pauses);
    let router = Router::new()
        .route("/stock/{sku}/deduct", handlers::deduct(blueprint.mode))
        .layer(Extension(locks.clone()))
        .with_state(shop);

    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen_error = |source| RunError::Listen { address: any_port, source };
    let listener = TcpListener::bind(any_port).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let _ = listening.send(address);

    serve_until(stop.cancelled_owned(), listener, router, &locks, DRAIN).await.map_err(RunError::Instance)?;
    Ok(())
}
