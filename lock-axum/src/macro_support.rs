//! What `#[distributed_lock]` expands to. Not public API: it changes together with the macro.

use std::convert::Infallible;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::LazyLock;

pub use axum::Extension;
use axum::extract::{FromRef, FromRequestParts};
use axum::response::IntoResponse;
pub use axum::response::Response;
use http::Method;
use http::request::Parts;
use lock_core::{Lease, LockError, LockGuard, LockManager, LockPending};

pub use crate::buffered_bytes::BufferedBytes;
pub use crate::counted::{Counted, ReadBytes, ViaCounted};
use crate::critical_section;
use crate::delegation::Carried;
pub use crate::encode::push_encoded;
pub use crate::guard::{Guard, Resources};
pub use crate::held::Held;
use crate::hold::{Hold, PendingSession, in_session};
use crate::log_once::LogOnce;
pub use crate::param::{
    AnyParam, AnyType, Param, ParamType, check_extracted, check_filled_by_caller, check_filled_by_router,
};
pub use crate::policy::{HoldUntil, Policy};
use crate::rejection::{AnswerError, Cause, LockRejection};
pub use crate::signature::{Nothing, OnError, Outcome, Output, Returns, outcome, respond};
use crate::until_lost::{Completed, until_lost};

/// Extracts the lock manager from the request's extensions. Rejects the request if there is none, so that a handler
/// never runs unguarded.
///
/// The first extractor of a handler. It leaves the manager in the request for the others, which run before the lock is acquired.
pub struct Manager(pub Caller);

/// Whether a handler runs under a lock of this service or of the sender, as far as the head of its request says.
pub struct Caller {
    locks: LockManager,
    carried: Carried,
    method: Method,
}

impl Caller {
    fn of(parts: &mut Parts, locks: LockManager) -> Self {
        parts.extensions.insert(LockPending(locks.clone()));
        Self { locks, carried: Carried::by(&parts.headers), method: parts.method.clone() }
    }
}

impl<S: Sync> FromRequestParts<S> for Manager {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockRejection> {
        let locks: LockManager = parts.extensions.get().cloned().ok_or(Cause::NoManager)?;
        Ok(Self(Caller::of(parts, locks)))
    }
}

/// Extracts the lock manager from the router's state. Otherwise like [`Manager`].
pub struct ManagerFromState(pub Caller);

/// A router's state that has the lock manager.
#[diagnostic::on_unimplemented(
    message = "the router's state `{Self}` has no lock manager: add a field `locks: LockManager` and `#[derive(FromRef)]` to it, or \
               remove `state` and add `.layer(Extension(locks))` to the router",
    label = "needs `LockManager: FromRef<{Self}>`",
    note = "for a state in an `Arc`, see the second example of `#[distributed_lock]` with `state`"
)]
pub trait HasLocks: Sync {
    /// The lock manager of this state.
    fn locks(&self) -> LockManager;
}

#[diagnostic::do_not_recommend]
impl<S: Sync> HasLocks for S
where
    LockManager: FromRef<S>,
{
    fn locks(&self) -> LockManager {
        LockManager::from_ref(self)
    }
}

impl<S: HasLocks> FromRequestParts<S> for ManagerFromState {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(Caller::of(parts, state.locks())))
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
/// The rejection that is answered instead of the handler's response.
pub async fn guard_handler<R, Fut>(
    caller: Caller,
    read: ReadBytes,
    resources: R,
    policy: Policy,
    on_error: Option<fn(LockError) -> Response>,
    handler: impl FnOnce(<R::Guard as Deref>::Target) -> Fut,
) -> Result<Response, LockRejection>
where
    R: Resources + 'static,
    Fut: Future<Output = Response> + Send + 'static,
{
    let entered = Entered::enter(caller, read, resources, policy, on_error).await?;
    entered.run(|guard| Box::pin(handler((**guard).clone()))).await
}

/// Runs a handler that may take its lock along into a session. Otherwise like [`guard_handler`].
///
/// # Cancel safety
///
/// As [`guard_handler`].
///
/// # Errors
///
/// The rejection that is answered instead of the handler's response.
pub async fn guard_session_handler<Fut>(
    caller: Caller,
    read: ReadBytes,
    resource: String,
    policy: Policy,
    on_error: Option<fn(LockError) -> Response>,
    handler: impl FnOnce(Lease, Hold) -> Fut,
) -> Result<Response, LockRejection>
where
    Fut: Future<Output = Response> + Send + 'static,
{
    let on_lost = policy.on_lost;
    let entered = Entered::enter(caller, read, resource, policy, on_error).await?;
    let run = entered.run(|guard: &LockGuard| {
        let (hold, session) = PendingSession::new(guard, on_lost);
        Box::pin(in_session(handler(guard.lease(), hold), Some(session)))
    });
    run.await
}

/// A future whose type does not depend on the handler. What runs a handler under its lock is then compiled once, and that it is `Send` is not
/// proven for each handler through all types of the engine: that took half of the time to build a service of a hundred handlers.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The lock of a handler that has not begun.
struct Entered<G> {
    guard: G,
    /// Of the request.
    method: Method,
    policy: Policy,
    on_error: Option<fn(LockError) -> Response>,
}

impl<G: Guard> Entered<G> {
    /// Acquires the lock, or adopts it.
    fn enter(
        Caller { locks, carried, method }: Caller,
        read: ReadBytes,
        resources: impl Resources<Guard = G> + 'static,
        policy: Policy,
        on_error: Option<fn(LockError) -> Response>,
    ) -> Boxed<Result<Self, LockRejection>> {
        Box::pin(async move {
            let answer = on_error.as_ref().map(|on_error| on_error as &AnswerError);
            let guard = critical_section::enter(&locks, &resources, || carried, &policy, answer).await?;
            drop(read);
            Ok(Self { guard, method, policy, on_error })
        })
    }

    /// Runs the handler, and prepares its response.
    fn run(self, handler: impl FnOnce(&G) -> Boxed<Response>) -> Boxed<Result<Response, LockRejection>> {
        static UPGRADE_NOT_HELD: LazyLock<LogOnce> = LazyLock::new(LogOnce::default);

        let Self { guard, method, policy, on_error } = self;
        let section = critical_section::run(guard, &policy, handler);
        Box::pin(async move {
            let finish = |Completed { output, guard }| {
                critical_section::finish_response(output, &method, guard, &policy, &UPGRADE_NOT_HELD)
            };
            let answer = on_error.as_ref().map(|on_error| on_error as &AnswerError);
            section.await.and_then(finish).map_err(|error| critical_section::reject(error, &policy, answer))
        })
    }
}

/// Runs the body of a function under its lock, in the caller's task.
///
/// # Cancel safety
///
/// Dropping the future drops the body, and then releases the lock.
///
/// # Errors
///
/// The error of the lock, or the function's own. A success is replaced by [`LockError::Lost`] if the lock was lost before.
pub async fn guard_function<T>(
    locks: LockManager,
    resources: impl Resources,
    policy: Policy,
    outcome: Outcome<T>,
    body: impl Future<Output = T>,
) -> T {
    let guarded = async {
        let guard = resources.acquire(&locks, &policy).await?;
        // A manager that was made for this call alone is dropped here, and says so.
        drop(locks);
        let body = guard.scope().enter(body);
        let Completed { output, guard } = until_lost(guard, body, policy.on_lost).await?;
        if outcome.is_success(&output) {
            guard.check()?;
        }
        Ok(output)
    };
    guarded.await.unwrap_or_else(|error| outcome.failed(error))
}

/// Converts a handler's output. A function, so that generated code needs no trait in scope.
pub fn into_response(output: impl IntoResponse) -> Response {
    output.into_response()
}
