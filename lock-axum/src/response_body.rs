use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lock_core::{LockError, Scope};
use pin_project_lite::pin_project;

use crate::guard::Guard;
use crate::held::Held;

pin_project! {
    /// A response body that holds the lock until its end. If the lease is lost before, the body ends with an error, so
    /// that the client does not mistake a truncated response for a complete one.
    struct LockedBody<G> {
        #[pin]
        inner: Body,
        // Declared after the body, so that it is dropped after it.
        lock: Option<HeldLock<G>>,
        // Set once the lock is lost: the inner body is not polled again.
        lost: bool,
    }
}

struct HeldLock<G> {
    // Polled for its wake-up only.
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    // Made with the first poll: the scope that the handler ran in may be gone by then.
    scope: Option<Scope>,
    guard: G,
}

/// Keeps the lock until the end of a response's body. A body that is empty has ended already.
pub(crate) fn hold_until_end(response: Response, mut guard: impl Guard) -> Response {
    if http_body::Body::is_end_stream(response.body()) {
        return response;
    }
    // An outer layer on the same resource ends when it has the response, before the body.
    guard.keep_beyond_outer();
    let lost = Box::pin(Held::lost((*guard).clone()));
    let lock = Some(HeldLock { lost, scope: None, guard });
    response.map(|inner| Body::new(LockedBody { inner, lock, lost: false }))
}

impl<G: Guard> HeldLock<G> {
    /// Polls the inner body in the scope of the lock, while the lease is valid. `check` reads the clock, because `lost` may resolve late: the
    /// task that ends leases may be behind.
    fn poll_while_valid<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Result<Poll<T>, LockError> {
        self.guard.check()?;
        // Registers a wake-up for the loss. The checks find out whether it has happened already.
        _ = self.lost.as_mut().poll(cx);
        let polled = self.scope.get_or_insert_with(|| self.guard.scope()).call(|| poll(cx));
        // The poll may have taken longer than the lease was valid.
        self.guard.check()?;
        Ok(polled)
    }
}

impl<G: Guard> http_body::Body for LockedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut this = self.project();
        if *this.lost {
            return Poll::Ready(None);
        }
        let inner = this.inner.as_mut();
        let poll = |cx: &mut Context<'_>| inner.poll_frame(cx);
        let polled = match this.lock {
            Some(lock) => lock.poll_while_valid(cx, poll),
            None => Ok(poll(cx)),
        };
        *this.lost = polled.is_err();
        let polled = polled.unwrap_or_else(|error| Poll::Ready(Some(Err(axum::Error::new(error)))));
        // Released at the end of the body, not when the server drops it, which may be later. What the body owns, such as a transaction, ends
        // before.
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.inner.set(Body::empty());
            *this.lock = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.lost || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
