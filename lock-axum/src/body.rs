use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lock_core::LockGuard;
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

impl http_body::Body for LockedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.project();
        if *this.lost {
            return Poll::Ready(None);
        }
        if let Some(lock) = this.lock
            && lock.lost.as_mut().poll(cx).is_ready()
            && let Err(error) = lock.guard.check()
        {
            *this.lock = None;
            *this.lost = true;
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let frame = std::task::ready!(this.inner.poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            *this.lock = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.lost || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
