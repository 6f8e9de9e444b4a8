use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use lock_core::{LockError, Mutex, Scope};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::guard::Guard;
use crate::held::Held;
use crate::until_lost::loss;

pin_project! {
    /// A response body that holds the lock until its end. If the lease is lost before, the body ends with an error, so
    /// that the client does not mistake a truncated response for a complete one.
    struct LockedBody<G> {
        inner: Inner,
        // Declared after the body, so that it is dropped after it.
        lock: Option<HeldLock<G>>,
        // Set once the lock is lost: the inner body is not polled again.
        lost: bool,
    }
}

/// Empty while the body is polled, and once the lock is lost.
type Inner = Arc<Mutex<Option<Body>>>;

struct HeldLock<G> {
    // Polled for its wake-up only.
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    // Made with the first poll: the scope that the handler ran in may be gone by then.
    scope: Option<Scope>,
    // The task that drops the body when the lock is lost.
    ends_body: Option<AbortHandle>,
    guard: G,
}

impl<G> Drop for HeldLock<G> {
    fn drop(&mut self) {
        if let Some(task) = &self.ends_body {
            task.abort();
        }
    }
}

/// Keeps the lock until the end of a response's body. A body that is empty has ended already.
pub(crate) fn hold_until_end(response: Response, mut guard: impl Guard) -> Response {
    if response.body().is_end_stream() {
        return response;
    }
    // An outer layer on the same resource ends when it has the response, before the body.
    guard.keep_beyond_outer();
    response.map(|body| {
        let inner: Inner = Arc::new(Mutex::new(Some(body)));
        let lost = Box::pin(Held::lost((*guard).clone()));
        let ends_body = Handle::try_current().ok().map(|runtime| {
            let ending = end_with_lock(loss(&*guard), Arc::downgrade(&inner));
            runtime.spawn(ending).abort_handle()
        });
        let lock = Some(HeldLock { lost, scope: None, ends_body, guard });
        Body::new(LockedBody { inner, lock, lost: false })
    })
}

/// Drops a body when the lock is lost, with what it owns, such as a transaction. The server does not poll it for that while its client
/// reads nothing.
async fn end_with_lock(loss: impl Future<Output = LockError>, inner: Weak<Mutex<Option<Body>>>) {
    loss.await;
    let body = inner.upgrade().and_then(|inner| inner.lock().take_if(|body| !body.is_end_stream()));
    drop(body);
}

/// Polls a body where nobody else can reach it meanwhile. If it is gone, the lock is lost, which is found out afterwards.
fn poll_frame(inner: &Inner, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
    let Some(mut body) = inner.lock().take() else { return Poll::Pending };
    let polled = Pin::new(&mut body).poll_frame(cx);
    *inner.lock() = Some(body);
    polled
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
        let this = self.project();
        if *this.lost {
            return Poll::Ready(None);
        }
        let polled = match this.lock {
            Some(lock) => lock.poll_while_valid(cx, |cx| poll_frame(this.inner, cx)),
            None => Ok(poll_frame(this.inner, cx)),
        };
        *this.lost = polled.is_err();
        let polled = polled.unwrap_or_else(|error| Poll::Ready(Some(Err(axum::Error::new(error)))));
        // Released at the end of the body, not when the server drops it, which may be later. What the body owns, such as a transaction, ends
        // before.
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            let ended = this.inner.lock().replace(Body::empty());
            drop(ended);
            *this.lock = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.lost || self.inner.lock().as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.lock().as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
