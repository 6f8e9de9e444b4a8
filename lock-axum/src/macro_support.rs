//! What `#[distributed_lock]` expands to. Not public API: it changes together with the macro.

use std::convert::Infallible;

pub use axum::Extension;
use axum::extract::{FromRef, FromRequestParts};
use axum::response::IntoResponse;
pub use axum::response::Response;
use http::request::Parts;
use lock_core::{Lease, LockError, LockManager, LockPending};

pub use crate::counted::{Counted, ReadBytes, ViaCounted};
use crate::critical_section::{self, Completed};
pub use crate::encode::push_encoded;
pub use crate::param::{
    AnyParam, AnyType, Param, ParamType, check_extracted, check_filled_by_caller, check_filled_by_router,
};
pub use crate::policy::Policy;
use crate::rejection::LockRejection;
pub use crate::signature::{Nothing, OnError, Outcome, Output, Returns, outcome, respond};

/// Extracts the lock manager from the request's extensions. Rejects the request if there is none, so that a handler
/// never runs unguarded.
///
/// The first extractor of a handler. It leaves word of the manager for the others, which run before the lock is acquired.
pub struct Manager(LockManager);

impl<S: Sync> FromRequestParts<S> for Manager {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockRejection> {
        let locks: LockManager = parts.extensions.get().cloned().ok_or_else(LockRejection::no_manager)?;
        parts.extensions.insert(LockPending(locks.clone()));
        Ok(Self(locks))
    }
}

impl From<Manager> for LockManager {
    fn from(Manager(locks): Manager) -> Self {
        locks
    }
}

/// Extracts the lock manager from the router's state. Otherwise like [`Manager`].
pub struct ManagerFromState(LockManager);

impl<S: Sync> FromRequestParts<S> for ManagerFromState
where
    LockManager: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let locks = LockManager::from_ref(state);
        parts.extensions.insert(LockPending(locks.clone()));
        Ok(Self(locks))
    }
}

impl From<ManagerFromState> for LockManager {
    fn from(ManagerFromState(locks): ManagerFromState) -> Self {
        locks
    }
}

/// Runs a handler under its lock. What its extractors have read of the body is counted until then.
///
/// # Cancel safety
///
/// If the future is dropped before the lock is acquired, no lock is left behind. After that, [`Policy::on_disconnect`]
/// decides whether the handler is dropped as well or runs to its end.
///
/// # Errors
///
/// The rejection that answers in place of the handler.
pub async fn guard_handler<Fut>(
    locks: impl Into<LockManager>,
    read: ReadBytes,
    resource: String,
    policy: Policy,
    on_error: Option<fn(LockError) -> Response>,
    handler: impl FnOnce(Lease) -> Fut,
) -> Result<Response, LockRejection>
where
    Fut: Future<Output = Response> + Send + 'static,
{
    let handler = move |lease| {
        drop(read);
        handler(lease)
    };
    let error = match critical_section::run(&locks.into(), &resource, &policy, handler).await {
        Err(error) => error,
        Ok(Completed { output: mut response, guard }) => {
            match critical_section::finish_response(&guard, &mut response) {
                Ok(()) => return Ok(response),
                Err(error) => error,
            }
        }
    };
    let on_error = on_error.as_ref().map(|on_error| on_error as &dyn Fn(LockError) -> Response);
    Err(critical_section::reject(error, &policy, on_error))
}

/// Runs the body of a function under its lock, in the caller's task.
///
/// # Cancel safety
///
/// Dropping the future drops the body, and then releases the lock.
///
/// # Errors
///
/// That of the lock, or the function's own. A success is replaced by [`LockError::Lost`] if the lock was lost before.
pub async fn guard_function<T>(
    locks: LockManager,
    resource: String,
    policy: Policy,
    outcome: Outcome<T>,
    body: impl Future<Output = T>,
) -> T {
    guard_body(&locks, &resource, &policy, &outcome, body).await.unwrap_or_else(|error| outcome.failed(error))
}

async fn guard_body<T>(
    locks: &LockManager,
    resource: &str,
    policy: &Policy,
    outcome: &Outcome<T>,
    body: impl Future<Output = T>,
) -> Result<T, LockError> {
    let guard = policy.request(locks, resource).acquire().await?;
    // Declared after the guard, and so dropped before it: the body ends before the lock is released.
    let body = guard.scope(body);
    let output = critical_section::run_until_lost(&guard, body, policy.on_lost).await?;
    if outcome.is_success(&output) {
        guard.check()?;
    }
    Ok(output)
}

/// Converts a handler's output. A function, so that generated code needs no trait in scope.
pub fn into_response(output: impl IntoResponse) -> Response {
    output.into_response()
}
