//! Runs a handler while its lock is held.

use std::panic::resume_unwind;

use axum::response::Response;
use lock_core::{Lease, LockError, LockGuard, LockManager};
use tokio::task::JoinError;
use tracing::Instrument as _;

use crate::policy::{OnDisconnect, OnLost, Policy};
use crate::rejection::LockRejection;

/// The output of a handler, with the lock still held.
///
/// Layer and macro drop the guard, which releases the lock in the background. To await the release would add a round
/// trip to every response, half the cost of a lock, and could not change the response. If another caller waits in this
/// process, the lock is handed over at once either way.
pub(crate) struct Completed<T> {
    pub(crate) output: T,
    pub(crate) guard: LockGuard,
}

/// Why a handler has no output.
pub(crate) enum Interrupted {
    /// The lock was not acquired, or it was lost while the handler ran.
    Lock(LockError),
    /// The runtime shut down and dropped the handler's task.
    RuntimeShutdown,
}

/// Acquires the lock and runs a handler under it.
///
/// # Cancel safety
///
/// If the future is dropped before the lock is acquired, no lock is left behind. After that, the policy decides whether
/// the handler is dropped as well or runs to its end. In either case the handler ends before the lock is released.
pub(crate) async fn run<T, Fut>(
    locks: &LockManager,
    resource: &str,
    policy: &Policy,
    handler: impl FnOnce(Lease) -> Fut,
) -> Result<Completed<T>, Interrupted>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let guard = policy.request(locks, resource).acquire().await.map_err(Interrupted::Lock)?;
    let lease = guard.lease();
    // The scope is created in the request's task, where the enclosing scopes are visible: a spawned task does not
    // inherit task-locals, but the scope moves into it together with the future.
    let section = run_with_guard(guard, lease.scope(handler(lease.clone())), policy.on_lost);
    let result = match policy.on_disconnect {
        OnDisconnect::Cancel => section.await,
        // hyper drops the request's future when the client disconnects. A task of its own keeps the handler running,
        // and it owns the guard, so that the lock is held until the handler ends.
        OnDisconnect::Finish => match tokio::spawn(section.in_current_span()).await {
            Ok(result) => result,
            Err(error) => return Err(join_error(error)),
        },
    };
    result.map_err(Interrupted::Lock)
}

/// Runs `work` and returns its output with the guard. `work` is dropped before the guard, however this ends: completed,
/// lost, panicking or dropped.
async fn run_with_guard<T>(
    guard: LockGuard,
    work: impl Future<Output = T>,
    on_lost: OnLost,
) -> Result<Completed<T>, LockError> {
    let output = run_until_lost(&guard, work, on_lost).await?;
    Ok(Completed { output, guard })
}

/// Runs `work` to its end or, with [`OnLost::Cancel`], until the lease is lost.
///
/// # Cancel safety
///
/// Dropping the future drops `work`.
pub(crate) async fn run_until_lost<T>(
    lease: &Lease,
    work: impl Future<Output = T>,
    on_lost: OnLost,
) -> Result<T, LockError> {
    match on_lost {
        OnLost::Continue => Ok(work.await),
        OnLost::Cancel => tokio::select! {
            // The loss is polled first: once the lease has ended, the work must not take another step.
            biased;
            error = loss(lease) => Err(error),
            output = work => Ok(output),
        },
    }
}

/// Waits until the lease has ended, and returns why.
async fn loss(lease: &Lease) -> LockError {
    loop {
        lease.lost().await;
        if let Err(error) = lease.check() {
            return error;
        }
    }
}

/// Resumes a handler's panic in the request's task, where the server and middleware expect it.
fn join_error(error: JoinError) -> Interrupted {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // No handle of the task is ever aborted, so only the runtime can have cancelled it.
        Err(_cancelled) => Interrupted::RuntimeShutdown,
    }
}

/// Prepares a handler's response for the client: fails if it reports success although the lock was lost, and adds the
/// token to its extensions for outer middleware.
pub(crate) fn finish_response(lease: &Lease, response: &mut Response) -> Result<(), LockError> {
    if response.status().is_success() {
        lease.check()?;
    }
    response.extensions_mut().insert(lease.token());
    Ok(())
}

impl Interrupted {
    /// The rejection that answers in place of the handler.
    pub(crate) fn into_rejection(
        self,
        policy: &Policy,
        on_error: Option<&dyn Fn(LockError) -> Response>,
    ) -> LockRejection {
        match self {
            Self::RuntimeShutdown => LockRejection::runtime_shutdown(policy),
            Self::Lock(error) => match on_error {
                Some(on_error) => LockRejection::answered_by(on_error, error),
                None => LockRejection::new(error, policy),
            },
        }
    }
}
