use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;

/// The future of [`LockService`](super::LockService).
///
/// # Cancel safety
///
/// Dropped before the lock was granted, it leaves nothing behind. After that, [`OnDisconnect`](crate::OnDisconnect) tells
/// what becomes of the handler.
// Boxed: between key, body, lock and handler stand the user's own closures.
pub struct ResponseFuture<E>(Pin<Box<dyn Future<Output = Result<Response, E>> + Send>>);

impl<E> ResponseFuture<E> {
    pub(super) fn new(future: impl Future<Output = Result<Response, E>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

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
