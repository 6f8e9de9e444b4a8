//! A handler's run under its lock.

use std::panic::resume_unwind;

use axum::response::Response;
use lock_core::{Lease, LockError, LockGuard, LockManager};
use tokio::task::JoinError;
use tracing::Instrument as _;

use crate::policy::{OnDisconnect, OnLost, Policy};
use crate::rejection::LockRejection;

/// What a handler gave, with the lock still held.
///
/// Layer and macro drop the guard, which releases in the background: to await that would add a round trip to every answer, half
/// of what a lock costs in all, and could not change the answer. Where somebody waits in this process, the lock is handed over
/// at once in either case.
pub(crate) struct Held<T> {
    pub(crate) output: T,
    pub(crate) guard: LockGuard,
}

/// Why a handler gave nothing.
pub(crate) enum Stopped {
    /// The lock could not be had, or was lost.
    Lock(LockError),
    /// The runtime shut down under it.
    Runtime,
}

/// Takes a lock and runs a handler under it.
///
/// # Cancel safety
///
/// Dropped before the lock was granted, it leaves nothing behind. After that, the policy tells whether the handler ends with
/// the future or runs on; either way, it ends before the lock does.
pub(crate) async fn run<T, Fut>(
    locks: &LockManager,
    resource: &str,
    policy: &Policy,
    handler: impl FnOnce(Lease) -> Fut,
) -> Result<Held<T>, Stopped>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let guard = policy.request(locks, resource).acquire().await.map_err(Stopped::Lock)?;
    let lease = guard.lease();
    // The scope is entered here, where the outer ones can be seen, and goes along when the handler is spawned.
    let running = hold(guard, lease.scope(handler(lease.clone())), policy.on_lost);
    let ended = match policy.on_disconnect {
        OnDisconnect::Cancel => running.await,
        OnDisconnect::Finish => match tokio::spawn(running.in_current_span()).await {
            Ok(ended) => ended,
            Err(failed) => return Err(failed_task(failed)),
        },
    };
    ended.map_err(Stopped::Lock)
}

/// Runs work under a guard. However this ends, the work is dropped before the guard.
async fn hold<T>(guard: LockGuard, work: impl Future<Output = T>, on_lost: OnLost) -> Result<Held<T>, LockError> {
    let output = until_lost(&guard, work, on_lost).await?;
    Ok(Held { output, guard })
}

/// Runs work until it is done or, if that is to be its end, the lease is lost.
pub(crate) async fn until_lost<T>(
    lease: &Lease,
    work: impl Future<Output = T>,
    on_lost: OnLost,
) -> Result<T, LockError> {
    match on_lost {
        OnLost::Continue => Ok(work.await),
        OnLost::Cancel => tokio::select! {
            biased;
            error = loss(lease) => Err(error),
            output = work => Ok(output),
        },
    }
}

/// Resolves to the error when the lease has ended.
async fn loss(lease: &Lease) -> LockError {
    loop {
        lease.lost().await;
        if let Err(error) = lease.check() {
            return error;
        }
    }
}

/// A panic goes on where it would have gone without the spawn.
fn failed_task(failed: JoinError) -> Stopped {
    match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_cancelled) => Stopped::Runtime,
    }
}

/// Lets a handler's answer out: never a success from under a lost lock. Tells the token to the middleware outside.
pub(crate) fn let_out(lease: &Lease, response: &mut Response) -> Result<(), LockError> {
    if response.status().is_success() {
        lease.check()?;
    }
    response.extensions_mut().insert(lease.token());
    Ok(())
}

impl Stopped {
    /// The answer to the client.
    pub(crate) fn reject(self, policy: &Policy, on_error: Option<&dyn Fn(LockError) -> Response>) -> LockRejection {
        match self {
            Self::Runtime => LockRejection::runtime_ended(),
            Self::Lock(error) => match on_error {
                Some(on_error) => LockRejection::answered_by(on_error, error),
                None => LockRejection::new(error, policy.busy_status),
            },
        }
    }
}
