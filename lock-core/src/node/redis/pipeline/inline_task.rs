//! A future that is polled by a task of its own, and by whoever has something for it to do.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::task::unconstrained;

/// Nobody polls it.
const AT_REST: u8 = 0;
/// Someone polls it.
const POLLED: u8 = 1;
/// Someone polls it, and it was woken since.
const AGAIN: u8 = 2;
/// An inline one that wakes itself is polled so often in one go. Then others have their turn.
const MOST_POLLS: usize = 4;

/// Work on a connection that is done where it comes up, as far as it can be.
///
/// A task that wakes itself while it is polled, or that is woken by another one again and again, is offered to the other
/// threads of the runtime, and the one that takes it has to be woken first: where nothing else is to be done, that takes longer
/// than a round trip to a server. So what wakes itself is polled again in the same go, and who brings something polls, too.
pub(super) struct InlineTask {
    /// `None` when it is done.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    state: AtomicU8,
    task: AtomicWaker,
    /// That of the task. What is polled may have timers and sockets, and whoever polls it may have another runtime, or none.
    runtime: Handle,
    /// Whether it is to be done where it comes up. If not, it is a task like any other: in a crowd the others' turns are what
    /// brings work together.
    inline: Arc<AtomicBool>,
}

type Locked<'a> = MutexGuard<'a, Option<BoxFuture<'static, ()>>>;

impl InlineTask {
    /// Starts the task. When its runtime is shut down, the future is dropped with it.
    pub(super) fn spawn(inline: Arc<AtomicBool>, future: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        // Unconstrained: tokio's budget is that of the task that polls, which may be anyone's.
        let future: BoxFuture<'static, ()> = Box::pin(unconstrained(future));
        let (future, state, task) = (Mutex::new(Some(future)), AtomicU8::new(AT_REST), AtomicWaker::new());
        let driven = Arc::new(Self { future, state, task, runtime: Handle::current(), inline });
        let end = End(Arc::clone(&driven));
        tokio::spawn(poll_fn(move |cx| end.0.poll_in_task(cx)));
        driven
    }

    /// Gives it something to do and, if it is inline, polls it here and now; if someone else does just then, that one will see to
    /// it.
    pub(super) fn drive(self: &Arc<Self>, give: impl FnOnce()) {
        // A thread that ends has no runtime any more, not even another's.
        let ends = || Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        let locked = if self.is_inline() && !ends() { self.lock() } else { None };
        let Some(future) = locked else { return give() };
        // Whom giving wakes is to be polled anyway.
        self.state.store(POLLED, Ordering::SeqCst);
        give();
        let _entered = self.runtime.enter();
        // When it is done the task sees that, too.
        _ = self.poll(future);
    }

    fn is_inline(&self) -> bool {
        self.inline.load(Ordering::Relaxed)
    }

    /// `None` while someone else polls.
    fn lock(&self) -> Option<Locked<'_>> {
        match self.future.try_lock() {
            Ok(future) => Some(future),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn poll_in_task(self: &Arc<Self>, cx: &Context<'_>) -> Poll<()> {
        self.task.register(cx.waker());
        if let Some(future) = self.lock() {
            return self.poll(future);
        }
        self.wake_by_ref();
        Poll::Pending
    }

    fn poll(self: &Arc<Self>, mut future: Locked<'_>) -> Poll<()> {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..MOST_POLLS {
            self.state.store(POLLED, Ordering::SeqCst);
            // Taken out: should it panic, nobody polls it again.
            let pending = future.take().and_then(|mut future| match future.as_mut().poll(&mut cx) {
                Poll::Ready(()) => None,
                Poll::Pending => Some(future),
            });
            if pending.is_none() {
                self.state.store(AT_REST, Ordering::SeqCst);
                self.task.wake();
                return Poll::Ready(());
            }
            *future = pending;
            if self.state.compare_exchange(POLLED, AT_REST, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Poll::Pending;
            }
            if !self.is_inline() {
                break;
            }
        }
        self.state.store(AT_REST, Ordering::SeqCst);
        self.task.wake();
        Poll::Pending
    }
}

impl Wake for InlineTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let polled = self.state.compare_exchange(POLLED, AGAIN, Ordering::SeqCst, Ordering::SeqCst);
        if polled == Err(AT_REST) {
            self.task.wake();
        }
    }
}

/// Drops the future when the task ends: what it waits for has wakers that lead back to it.
struct End(Arc<InlineTask>);

impl Drop for End {
    fn drop(&mut self) {
        let future = self.0.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(future);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    fn inline() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(true))
    }

    /// Counts what it receives.
    fn counting(inline: Arc<AtomicBool>) -> (Arc<InlineTask>, mpsc::UnboundedSender<()>, Arc<AtomicUsize>) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let driven = InlineTask::spawn(inline, async move {
            while receiver.recv().await.is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        (driven, sender, count)
    }

    #[tokio::test]
    async fn what_it_is_given_is_done_where_it_is_given() {
        let (driven, sender, count) = counting(inline());
        driven.drive(|| sender.send(()).unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 1, "before the task had a turn");
        sender.send(()).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        yield_now().await;
        assert_eq!(count.load(Ordering::SeqCst), 2, "by the task");
    }

    #[test]
    fn it_has_the_timers_of_its_task_whoever_polls_it() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (done, is_done) = oneshot::channel();
        let driven = runtime.block_on(async {
            InlineTask::spawn(inline(), async move {
                receiver.recv().await;
                sleep(Duration::from_millis(1)).await;
                _ = done.send(());
            })
        });
        thread::spawn(move || driven.drive(|| sender.send(()).unwrap())).join().unwrap();
        runtime.block_on(is_done).unwrap();
    }

    #[tokio::test]
    async fn one_that_is_not_eager_is_left_to_its_task() {
        let inline = inline();
        let (driven, sender, count) = counting(Arc::clone(&inline));
        inline.store(false, Ordering::Relaxed);
        driven.drive(|| sender.send(()).unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 0);
        yield_now().await;
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn one_that_wakes_itself_is_polled_at_once_but_not_for_ever() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let driven = InlineTask::spawn(
            inline(),
            poll_fn(move |cx| {
                counted.fetch_add(1, Ordering::SeqCst);
                cx.waker().wake_by_ref();
                Poll::Pending
            }),
        );
        driven.drive(|| {});
        assert_eq!(polls.load(Ordering::SeqCst), MOST_POLLS);
        yield_now().await;
        assert!(polls.load(Ordering::SeqCst) > MOST_POLLS, "the task goes on");
    }

    #[tokio::test]
    async fn the_task_ends_where_another_one_finished_the_work() {
        let (end, ended) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let driven = InlineTask::spawn(inline(), async move {
            _ = ended.await;
            _ = done.send(());
        });
        driven.drive(|| end.send(()).unwrap());
        is_done.await.unwrap();
        yield_now().await;
        assert_eq!(Arc::strong_count(&driven), 1, "the task is gone");
    }

    #[test]
    fn it_is_dropped_with_the_runtime_of_its_task() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (driven, sender, count) = runtime.block_on(async { counting(inline()) });
        drop(runtime);
        assert!(sender.is_closed());
        driven.drive(|| assert!(sender.send(()).is_err()));
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&driven)), (0, 1));
    }

    #[test]
    fn nothing_is_lost_when_many_drive_and_wake_it() {
        const EACH: usize = 20_000;
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (driven, sender, count) = runtime.block_on(async { counting(inline()) });
        thread::scope(|scope| {
            for number in 0..4 {
                let (driven, sender) = (&driven, &sender);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        if number % 2 == 0 {
                            driven.drive(|| sender.send(()).unwrap());
                        } else {
                            sender.send(()).unwrap();
                        }
                    }
                });
            }
        });
        while count.load(Ordering::SeqCst) < 4 * EACH {
            thread::yield_now();
        }
    }
}
