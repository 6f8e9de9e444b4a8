//! Graceful shutdown of a server whose handlers hold locks.

use std::{future::Future, io, time::Duration};

use axum::Router;
use lock_axum::{LockManager, ShutdownReport};
use tokio::{net::TcpListener, sync::oneshot, time::sleep};

/// Serves `router` until `stop` completes, then shuts down.
///
/// Requests that wait for a lock get 503, requests that hold one finish, and all locks are released.
///
/// Shutting down takes at most twice `grace`: once for open connections, because a client that
/// neither sends nor disconnects would keep the server alive forever, and once for holders that
/// outlive their connection.
pub(crate) async fn serve_until<F>(
    stop: F,
    listener: TcpListener,
    router: Router,
    locks: &LockManager,
    grace: Duration,
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
        () = async { let _ = stopping.await; sleep(grace).await } => {
            tracing::warn!(?grace, "connections are still open after the grace period; not waiting for them");
        }
    }
    Ok(locks.shutdown(grace).await)
}
