use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lock_core::{LockError, LockGuard};
use pin_project_lite::pin_project;

pin_project! {
    /// A response body that holds the lock until it is done, and ends with an error if the lock is lost before.
    pub(crate) struct LockedBody {
        #[pin]
        inner: Body,
        // Behind the body, so that it is dropped after it.
        lock: Option<HeldLock>,
        // Whether the lock was lost: nothing of the body comes any more.
        lost: bool,
    }
}

struct HeldLock {
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    guard: LockGuard,
}

impl LockedBody {
    pub(crate) fn new(inner: Body, guard: LockGuard) -> Self {
        let lost = Box::pin(guard.lost());
        Self { inner, lock: Some(HeldLock { lost, guard }), lost: false }
    }
}

impl HeldLock {
    /// Polls while the lease is valid, by the clock: it knows of the end before anybody is told.
    fn poll_held<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Result<Poll<T>, LockError> {
        self.guard.check()?;
        // Wakes the task at the end. One that is here just now is found below.
        _ = self.lost.as_mut().poll(cx);
        let polled = poll(cx);
        // That may have taken longer than the lease was valid.
        self.guard.check()?;
        Ok(polled)
    }
}

impl http_body::Body for LockedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.project();
        if *this.lost {
            return Poll::Ready(None);
        }
        let poll = |cx: &mut Context<'_>| this.inner.poll_frame(cx);
        let polled = match this.lock {
            Some(lock) => lock.poll_held(cx, poll),
            None => Ok(poll(cx)),
        };
        *this.lost = polled.is_err();
        let polled = polled.unwrap_or_else(|error| Poll::Ready(Some(Err(axum::Error::new(error)))));
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
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
