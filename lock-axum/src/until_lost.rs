use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use lock_core::LockError;
use pin_project_lite::pin_project;

use crate::held::Held;
use crate::policy::OnLost;

/// The output of a handler, with the lock still held.
///
/// Layer and macro drop the guard, which releases the lock in the background. To await the release would add a round
/// trip to every response, half the cost of a lock, and could not change the response. If another caller waits in this
/// process, the lock is handed over at once either way.
pub(crate) struct Completed<T, G> {
    pub(crate) output: T,
    pub(crate) guard: G,
}

pin_project! {
    /// Runs `work` to its end or, with [`OnLost::Cancel`], until the lock is lost.
    ///
    /// Dropping it drops `work` first, and then the guard.
    // Not an `async` block, which would have room for the work twice.
    pub(crate) struct UntilLost<G: Deref, W, L> {
        // Declared before the guard, and so dropped before it.
        #[pin]
        work: W,
        // Only when the work has to be waited for: work that ends at once needs no timer for the loss.
        #[pin]
        loss: Option<L>,
        begin_loss: fn(&G::Target) -> L,
        on_lost: OnLost,
        // Empty once the work has ended.
        guard: Option<G>,
    }
}

/// Runs `work` under a lock: see [`UntilLost`].
pub(crate) fn until_lost<G, W>(
    guard: G,
    work: W,
    on_lost: OnLost,
) -> UntilLost<G, W, impl Future<Output = LockError> + Send + 'static + use<G, W>>
where
    G: Deref<Target: Held>,
    W: Future,
{
    UntilLost { work, loss: None, begin_loss: loss, on_lost, guard: Some(guard) }
}

impl<G, W, L> Future for UntilLost<G, W, L>
where
    G: Deref<Target: Held>,
    W: Future,
    L: Future<Output = LockError>,
{
    type Output = Result<Completed<W::Output, G>, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(guard) = this.guard.as_ref() else { return Poll::Pending };
        // Once the lease has ended, the work must not take another step.
        if let (OnLost::Cancel, Err(error)) = (*this.on_lost, guard.check()) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(output) = this.work.poll(cx) {
            return this.guard.take().map_or(Poll::Pending, |guard| Poll::Ready(Ok(Completed { output, guard })));
        }
        if *this.on_lost == OnLost::Continue {
            return Poll::Pending;
        }
        if this.loss.is_none() {
            this.loss.set(Some((this.begin_loss)(guard)));
        }
        this.loss.as_pin_mut().map_or(Poll::Pending, |loss| loss.poll(cx).map(Err))
    }
}

/// Waits until the lease has ended, and returns why.
pub(crate) fn loss<H: Held>(held: &H) -> impl Future<Output = LockError> + Send + 'static + use<H> {
    let held = held.clone();
    async move {
        loop {
            held.clone().lost().await;
            if let Err(error) = held.check() {
                return error;
            }
        }
    }
}
