//! Counts what the extractors of a guarded handler read of the request's body, which is in memory while the handler waits
//! for its lock.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use lock_core::{BufferedBytes, LockPending};

use crate::policy::Policy;
use crate::rejection::LockRejection;

/// The last extractor of a handler, the only one that can read the body, with an account of what it has read.
pub struct Counted<T> {
    /// `None` if the manager had no room for the body.
    value: Option<T>,
    read: ReadBytes,
}

/// Distinguishes the implementation for [`Counted`] from axum's own for extractors of the request's head.
pub struct ViaCounted<M>(PhantomData<M>);

/// What an extractor has read of a body. Dropping it gives the bytes back; if the extractor has kept the body itself, what
/// is read from then on is not counted.
#[derive(Default)]
pub struct ReadBytes(Option<Arc<Mutex<Account>>>);

enum Account {
    Open(BufferedBytes),
    /// More was read than there was room for.
    Exceeded,
    /// Nothing is counted any more.
    Closed,
}

impl<S, M, T> FromRequest<S, ViaCounted<M>> for Counted<T>
where
    S: Send + Sync,
    T: FromRequest<S, M>,
{
    type Rejection = T::Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, T::Rejection> {
        let pending = request.extensions().get::<LockPending>().filter(|_| !request.body().is_end_stream());
        let Some(account) =
            pending.map(|LockPending(locks)| Arc::new(Mutex::new(Account::Open(locks.buffered_bytes()))))
        else {
            let value = T::from_request(request, state).await?;
            return Ok(Self { value: Some(value), read: ReadBytes::default() });
        };
        let read = ReadBytes(Some(Arc::clone(&account)));
        let request = request.map(|inner| Body::new(CountedBody { inner, account: Arc::clone(&account) }));
        let value = T::from_request(request, state).await;
        // Whatever the extractor made of it: many take it for a mistake of the client.
        let value = if matches!(*lock(&account), Account::Exceeded) { None } else { Some(value?) };
        Ok(Self { value, read })
    }
}

impl<T> Counted<T> {
    /// The extracted value, and what was read for it.
    ///
    /// # Errors
    ///
    /// 503 `lock-buffer-full` if the manager had no room for the body.
    pub fn into_parts(self, policy: &Policy) -> Result<(T, ReadBytes), LockRejection> {
        match self.value {
            Some(value) => Ok((value, self.read)),
            None => Err(LockRejection::buffer_full(policy)),
        }
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        if let Some(account) = &self.0 {
            *lock(account) = Account::Closed;
        }
    }
}

/// A body that counts what is read of it, and that ends with an error when there is no room for more.
struct CountedBody {
    inner: Body,
    account: Arc<Mutex<Account>>,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let mut account = lock(&self.account);
            if let Account::Open(bytes) = &mut *account
                && !bytes.take(data.len())
            {
                *account = Account::Exceeded;
                return Poll::Ready(Some(Err(axum::Error::new("too many request bodies are in memory"))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}
