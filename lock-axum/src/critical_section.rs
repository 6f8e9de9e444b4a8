//! Runs a handler while its lock is held: one that was acquired, or adopted.

use axum::response::Response;
use http::{Method, StatusCode};
use lock_core::{Lease, LockError, LockManager};

use crate::delegation::Carried;
use crate::detach::DetachOnDrop;
use crate::guard::{Guard, Resources};
use crate::held::Held as _;
use crate::log_once::LogOnce;
use crate::policy::{HoldUntil, OnDisconnect, Policy};
use crate::rejection::{AnswerError, LockRejection};
use crate::response_body::hold_until_end;
use crate::until_lost::{Completed, until_lost};

/// Acquires the lock of a request, or the locks. If the request carries a delegation, and the policy is to adopt it, that is
/// adopted instead, and refused rather than replaced by a lock of its own: its sender holds the lock.
///
/// # Errors
///
/// The rejection that is answered instead of the handler's response.
///
/// # Cancel safety
///
/// If the future is dropped, no lock is left behind.
pub(crate) async fn enter<R: Resources>(
    locks: &LockManager,
    resources: &R,
    carried: impl FnOnce() -> Carried,
    policy: &Policy,
    on_error: Option<&AnswerError>,
) -> Result<R::Guard, LockRejection> {
    // Boxed, because most requests carry nothing.
    if policy.adopt
        && let Some(adopted) = Box::pin(resources.adopt(carried(), locks, policy)).await?
    {
        return Ok(adopted);
    }
    resources.acquire(locks, policy).await.map_err(|error| reject(error, policy, on_error))
}

/// Runs a handler under its lock, or its locks.
///
/// # Errors
///
/// If the lock was lost while the handler ran.
///
/// # Cancel safety
///
/// If the future is dropped, the policy decides whether the handler is dropped as well or runs to its end. In either case the handler
/// ends before the lock is released.
pub(crate) fn run<G, T, Fut>(
    guard: G,
    policy: &Policy,
    handler: impl FnOnce(&G) -> Fut,
) -> DetachOnDrop<Result<Completed<T, G>, LockError>>
where
    G: Guard,
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let scope = guard.scope();
    let handler = scope.call(|| handler(&guard));
    let work = scope.enter(handler);
    // Owns the guard: wherever it goes, the lock is held until the handler ends.
    let section = until_lost(guard, work, policy.on_lost);
    // hyper drops the request's future when the client disconnects. A section inside another one is part of it, and
    // ends with it: when the outer lock is lost, for example. It is not detached either when a middleware between the two
    // drops it: the outer section would end, and release its lock, while the handler went on.
    let is_part_of_another = Lease::current().is_some();
    match policy.on_disconnect {
        OnDisconnect::Finish if !is_part_of_another => DetachOnDrop::new(section),
        OnDisconnect::Finish | OnDisconnect::Cancel => DetachOnDrop::attached(section),
    }
}

/// Prepares a handler's response for the client: fails if it is no error although the lock was lost, and adds the
/// token, or the leases of a set, to its extensions for outer middleware. Then releases the lock, unless the body of the response is to hold it.
///
/// A redirect is no error: after a POST, it is how a success is reported. Neither is a switch of protocols. That has no
/// body: the session that follows is not part of the response. `to` is the method of the request.
pub(crate) fn finish_response(
    mut response: Response,
    to: &Method,
    guard: impl Guard,
    policy: &Policy,
    upgrade_not_held: &LogOnce,
) -> Result<Response, LockError> {
    let is_lost = match guard.check() {
        Err(error) if response.status() < StatusCode::BAD_REQUEST => return Err(error),
        checked => checked.is_err(),
    };
    guard.note_in(response.extensions_mut());
    let begins_session = begins_session(to, response.status());
    let is_not_held = match policy.hold {
        HoldUntil::Answer => false,
        HoldUntil::BodyEnd => begins_session,
        HoldUntil::SessionEnd => begins_session && !guard.is_taken_along(),
    };
    if is_not_held && upgrade_not_held.is_first() {
        lock_core::log_event!(warn: "lock.upgrade_not_held",
            "a lock is not held for the session after an upgrade (101, or the answer to a CONNECT): hold it until the end of the \
             session, and not of the body, and let the handler take its Hold along");
    }
    // The body of an error that reports the loss would end at once, and with it the connection, before the client has the status.
    if policy.hold == HoldUntil::BodyEnd && !begins_session && !is_lost {
        return Ok(hold_until_end(response, guard));
    }
    Ok(response)
}

/// Whether a session follows an answer: after a switch of protocols, or a `CONNECT`, which has none over HTTP/2.
fn begins_session(to: &Method, status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || (*to == Method::CONNECT && status.is_success())
}

/// The rejection that is answered instead of the handler's response.
pub(crate) fn reject(error: LockError, policy: &Policy, on_error: Option<&AnswerError>) -> LockRejection {
    match on_error {
        Some(on_error) => LockRejection::answered_by(on_error, error),
        None => LockRejection::new(error, policy),
    }
}
