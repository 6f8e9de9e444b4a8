//! What `#[distributed_lock]` expands to. Not for use by hand: it changes as the macro does.

pub use axum::Extension;
use axum::extract::FromRequestParts;
use axum::response::IntoResponse;
pub use axum::response::Response;
use http::Request;
use http::request::Parts;
use lock_core::{Lease, LockError, LockManager};

pub use crate::encode::push_value;
use crate::guarded::{self, Held, Stopped};
pub use crate::policy::Policy;
use crate::rejection::LockRejection;

/// The manager in the request's extensions. Without one, the handler does not run.
pub struct Manager(LockManager);

impl<S: Sync> FromRequestParts<S> for Manager {
    type Rejection = LockRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, LockRejection> {
        parts.extensions.get().cloned().map(Self).ok_or_else(LockRejection::no_manager)
    }
}

/// Runs a handler under its lock.
///
/// # Errors
///
/// The rejection that answers for the handler.
pub async fn guard_handler<Fut>(
    Manager(locks): Manager,
    resource: String,
    policy: Policy,
    handler: impl FnOnce(Lease) -> Fut,
) -> Result<Response, LockRejection>
where
    Fut: Future<Output = Response> + Send + 'static,
{
    let stopped = match guarded::run(&locks, &resource, &policy, handler).await {
        Err(stopped) => stopped,
        Ok(Held { output: mut response, guard }) => match guarded::let_out(&guard, &mut response) {
            Ok(()) => return Ok(response),
            Err(error) => Stopped::Lock(error),
        },
    };
    let on_error = policy.on_error.as_ref().map(|on_error| on_error as &dyn Fn(LockError) -> Response);
    Err(stopped.reject(&policy, on_error))
}

/// Runs the body of a function under its lock, where it stands.
///
/// # Errors
///
/// That of the lock, or the function's own. What succeeded under a lock that was lost did not succeed.
pub async fn guard_call<R, E: From<LockError>>(
    locks: LockManager,
    resource: String,
    policy: Policy,
    body: impl Future<Output = Result<R, E>>,
) -> Result<R, E> {
    let guard = policy.request(&locks, &resource).acquire().await?;
    // Bound after the guard, and so dropped before it.
    let body = guard.scope(body);
    let output = guarded::until_lost(&guard, body, policy.on_lost).await?;
    if output.is_ok() {
        guard.check()?;
    }
    output
}

/// The answer that a handler's output is.
pub fn into_response(output: impl IntoResponse) -> Response {
    output.into_response()
}

/// Puts the lease into an argument that carries extensions.
pub struct Carrier<'a, T>(pub &'a mut T);

impl<B> Carrier<'_, Request<B>> {
    /// Puts lease and token into the request.
    pub fn carry(self, lease: &Lease) {
        self.0.extensions_mut().insert(lease.token());
        self.0.extensions_mut().insert(lease.clone());
    }
}

impl Carrier<'_, Parts> {
    /// Puts lease and token into the request's head.
    pub fn carry(self, lease: &Lease) {
        self.0.extensions.insert(lease.token());
        self.0.extensions.insert(lease.clone());
    }
}

/// For arguments of other types that happen to be called `Request` or `Parts`.
pub trait CarryNothing {
    /// Does nothing.
    fn carry(self, lease: &Lease);
}

impl<T> CarryNothing for Carrier<'_, T> {
    fn carry(self, _: &Lease) {}
}
