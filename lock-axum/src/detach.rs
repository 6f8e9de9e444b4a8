use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

/// A future that is polled in place. If it is dropped before its end, it moves to a task of its own and goes on there.
///
/// The task belongs to the runtime on which this was created, because the timers and sockets of the future do, and it
/// keeps the tracing span. If that runtime has ended, or there was none, the future is dropped.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    /// `None` while it is polled and after its end.
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Option<Handle>,
    span: Span,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: Handle::try_current().ok(), span: Span::current() }
    }

    /// One that is dropped where it is: without a runtime, it cannot go on.
    pub(crate) fn attached(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: None, span: Span::none() }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out, so that a future that panics is dropped here, and is not there to be detached.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && let Some(runtime) = &self.runtime
        {
            // Does not block, and drops the future if the runtime has ended.
            runtime.spawn(future.instrument(self.span.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    fn begin<T: Send + 'static>(
        runtime: &Runtime,
        future: impl Future<Output = T> + Send + 'static,
    ) -> DetachOnDrop<T> {
        let _entered = runtime.enter();
        DetachOnDrop::new(future)
    }

    /// Polls a future once, on a runtime.
    fn poll_once<T: Send + 'static>(runtime: &Runtime, future: &mut DetachOnDrop<T>) -> Poll<T> {
        runtime.block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))))
    }

    fn tasks(runtime: &Runtime) -> usize {
        runtime.metrics().num_alive_tasks()
    }

    #[test]
    fn a_future_that_is_dropped_before_its_end_goes_on_in_a_task() {
        let (runtime, notify, witness) = (runtime(), Arc::new(Notify::new()), Arc::new(()));
        let work = {
            let (notify, witness) = (Arc::clone(&notify), Arc::clone(&witness));
            async move {
                notify.notified().await;
                drop(witness);
            }
        };
        let mut future = begin(&runtime, work);
        assert!(poll_once(&runtime, &mut future).is_pending());
        assert_eq!(tasks(&runtime), 0);
        drop(future);
        assert_eq!((tasks(&runtime), Arc::strong_count(&witness)), (1, 2));
        notify.notify_one();
        runtime.block_on(tokio::task::yield_now());
        assert_eq!((tasks(&runtime), Arc::strong_count(&witness)), (0, 1));
    }

    #[test]
    fn a_future_that_has_ended_or_panicked_is_not_detached() {
        let runtime = runtime();
        let mut ended = begin(&runtime, ready(1));
        assert_eq!(poll_once(&runtime, &mut ended), Poll::Ready(1));
        drop(ended);
        let witness = Arc::new(());
        let owned = Arc::clone(&witness);
        let mut panicking = begin(&runtime, async move {
            let _owned = owned;
            tokio::task::yield_now().await;
            panic!("on purpose");
        });
        assert!(poll_once(&runtime, &mut panicking).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| poll_once(&runtime, &mut panicking))).is_err());
        assert_eq!(Arc::strong_count(&witness), 1, "dropped by the panic");
        drop(panicking);
        assert_eq!(tasks(&runtime), 0);
    }

    #[test]
    fn a_future_whose_runtime_has_ended_is_dropped() {
        let witness = Arc::new(());
        let owned = Arc::clone(&witness);
        let work = async move {
            let _owned = owned;
            pending::<()>().await;
        };
        let runtime = runtime();
        let mut future = begin(&runtime, work);
        assert!(poll_once(&runtime, &mut future).is_pending());
        drop(runtime);
        drop(future);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn without_a_runtime_a_future_is_dropped() {
        let witness = Arc::new(());
        let owned = Arc::clone(&witness);
        drop(DetachOnDrop::new(async move { drop(owned) }));
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
