//! Counts what the extractors of a guarded handler read of the request's body, which is in memory while the handler waits
//! for its lock.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use lock_core::{LockPending, Mutex};

use crate::buffered_bytes::BufferedBytes;
use crate::policy::Policy;
use crate::rejection::{Cause, LockRejection};
use crate::upload::{DEFAULT_TIMEOUT_MS, Stopped, Upload};

/// The last extractor of a handler, the only one that can read the body, with an account of what it has read.
pub struct Counted<T, const TIMEOUT_MS: u64 = DEFAULT_TIMEOUT_MS> {
    value: Result<T, Stopped>,
    read: ReadBytes,
}

/// Distinguishes the implementation for [`Counted`] from axum's own for extractors of the request's head.
pub struct ViaCounted<M>(PhantomData<M>);

/// What an extractor has read of a body. Dropping it gives the bytes back; if the extractor has kept the body itself, what
/// is read from then on is not counted.
#[derive(Default)]
pub struct ReadBytes(Option<Arc<Mutex<Account>>>);

enum Account {
    Open(Upload),
    /// It was not read to its end.
    Stopped(Stopped),
    /// Nothing is counted any more.
    Closed,
}

impl<S, M, T, const TIMEOUT_MS: u64> FromRequest<S, ViaCounted<M>> for Counted<T, TIMEOUT_MS>
where
    S: Send + Sync,
    T: FromRequest<S, M>,
{
    type Rejection = T::Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, T::Rejection> {
        let pending = request.extensions().get::<LockPending>().filter(|_| !request.body().is_end_stream());
        let Some(upload) =
            pending.map(|LockPending(locks)| Upload::new(BufferedBytes::of(locks), Duration::from_millis(TIMEOUT_MS)))
        else {
            let value = T::from_request(request, state).await?;
            return Ok(Self { value: Ok(value), read: ReadBytes::default() });
        };
        let account = Arc::new(Mutex::new(Account::Open(upload)));
        let read = ReadBytes(Some(Arc::clone(&account)));
        let request = request.map(|inner| Body::new(CountedBody { inner, account: Arc::clone(&account) }));
        let value = T::from_request(request, state).await;
        let complete = match &mut *account.lock() {
            Account::Open(upload) => upload.complete(),
            Account::Stopped(stopped) => Err(*stopped),
            Account::Closed => Ok(()),
        };
        // Whatever the extractor made of it: many take it for a mistake of the client.
        let value = match complete {
            Ok(()) => Ok(value?),
            Err(stopped) => Err(stopped),
        };
        Ok(Self { value, read })
    }
}

impl<T, const TIMEOUT_MS: u64> Counted<T, TIMEOUT_MS> {
    /// The extracted value, and what was read for it.
    ///
    /// # Errors
    ///
    /// 503 `lock-buffer-full` if the manager had no room for the body, 413 if it never will, and 408 if the body arrived too slowly.
    pub fn into_parts(self, policy: &Policy) -> Result<(T, ReadBytes), LockRejection> {
        match self.value {
            Ok(value) => Ok((value, self.read)),
            Err(stopped) => Err(Cause::Stopped { stopped, retry_after: policy.retry_after }.into()),
        }
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        if let Some(account) = &self.0 {
            *account.lock() = Account::Closed;
        }
    }
}

/// A body that counts what is read of it, and that ends with an error when there is no room for more, or when it arrives too slowly.
struct CountedBody {
    inner: Body,
    account: Arc<Mutex<Account>>,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let mut account = this.account.lock();
        let Account::Open(upload) = &mut *account else {
            drop(account);
            return Pin::new(&mut this.inner).poll_frame(cx);
        };
        match ready!(upload.poll_frame(Pin::new(&mut this.inner), cx)) {
            Ok(frame) => Poll::Ready(frame),
            Err(stopped) => {
                *account = Account::Stopped(stopped);
                Poll::Ready(Some(Err(axum::Error::new("the request body is not read to its end"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
