use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;

/// The response future of [`LockService`](super::LockService).
///
/// # Cancel safety
///
/// If the future is dropped before the lock is acquired, no lock is left behind. After that,
/// [`OnDisconnect`](crate::OnDisconnect) decides whether the handler is dropped as well or runs to its end. In either
/// case the lock is released after the handler has ended.
// Boxed, because its steps are one `async` block, whose type cannot be named: a hand-written state machine would have
// to name the futures of the lock and of the user's closures.
pub struct ResponseFuture<E>(pub(super) Pin<Box<dyn Future<Output = Result<Response, E>> + Send>>);

impl<E> Future for ResponseFuture<E> {
    type Output = Result<Response, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<E> fmt::Debug for ResponseFuture<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
