//! What `#[distributed_lock]` requires of the functions that users write, and what rustc says if they are others.

use std::marker::PhantomData;

use axum::response::{IntoResponse, Response};
use lock_core::LockError;

use crate::rejection::LockRejection;

/// The function in `on_error`, with a type parameter that tells the implementations apart.
#[diagnostic::on_unimplemented(
    message = "`on_error` must be a function `fn(LockError) -> impl IntoResponse`",
    label = "not a `fn(LockError) -> impl IntoResponse`",
    note = "it takes the error by value, and is not `async`"
)]
pub trait OnError<Via> {
    /// The response to a lock error.
    fn respond(self, error: LockError) -> Response;
}

/// The implementation for functions that return this type.
pub struct Returns<R>(PhantomData<R>);

impl<F, R> OnError<Returns<R>> for F
where
    F: Fn(LockError) -> R,
    R: IntoResponse,
{
    fn respond(self, error: LockError) -> Response {
        self(error).into_response()
    }
}

/// Implemented by nothing. If there were only one implementation to choose from, rustc would report what that one lacks
/// instead of the message above.
pub trait Nothing {}

impl<F: Nothing> OnError<()> for F {
    fn respond(self, error: LockError) -> Response {
        LockRejection::from(error).into_response()
    }
}

/// Calls the function in `on_error`.
pub fn respond<Via>(on_error: impl OnError<Via>, error: LockError) -> Response {
    on_error.respond(error)
}

/// What a guarded function returns.
#[diagnostic::on_unimplemented(
    message = "with `manager`, the function must return `Result<_, E>` with `E: From<LockError>`, not `{Self}`",
    label = "not a `Result`",
    note = "acquiring the lock can fail"
)]
pub trait Output: Sized {
    /// A lock error as this output.
    fn failed(error: LockError) -> Self;
    /// Whether the function succeeded.
    fn is_success(&self) -> bool;
}

impl<T, E: From<LockError>> Output for Result<T, E> {
    fn failed(error: LockError) -> Self {
        Err(error.into())
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }
}

/// The functions of an [`Output`], so that [`guard_function`](super::__private::guard_function) has no bounds for rustc to report a second time.
pub struct Outcome<T> {
    failed: fn(LockError) -> T,
    is_success: fn(&T) -> bool,
}

impl<T> Outcome<T> {
    pub(crate) fn failed(&self, error: LockError) -> T {
        (self.failed)(error)
    }

    pub(crate) fn is_success(&self, output: &T) -> bool {
        (self.is_success)(output)
    }
}

/// The only place that requires an [`Output`].
pub fn outcome<T: Output>() -> Outcome<T> {
    Outcome { failed: T::failed, is_success: T::is_success }
}
