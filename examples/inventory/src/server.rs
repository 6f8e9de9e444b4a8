use std::{future::Future, io, time::Duration};

use axum::Router;
use lock_axum::{LockManager, ShutdownReport};
use tokio::{net::TcpListener, sync::oneshot, time::sleep};

/// Serves `router` until `stop` ends, then drains: waiters for a lock are told that the service
/// shuts down, requests that hold one finish, locks are released.
///
/// Takes `drain` at most for the requests, for a client that neither sends nor leaves would keep a
/// connection open for ever, and `drain` once more for holders that outlive their connection.
pub(crate) async fn serve_until<F>(
    stop: F,
    listener: TcpListener,
    router: Router,
    locks: &LockManager,
    drain: Duration,
) -> io::Result<ShutdownReport>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (stopped, stopping) = oneshot::channel::<()>();
    let stop = async move {
        stop.await;
        drop(stopped);
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(locks.close_on(stop));
    tokio::select! {
        served = async { server.await } => served?,
        () = async { let _ = stopping.await; sleep(drain).await } => {
            tracing::warn!("connections are still open, leaving them");
        }
    }
    Ok(locks.shutdown(drain).await)
}
