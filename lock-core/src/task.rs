use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// A task that any thread can end at once: what it owns is dropped by that thread.
///
/// Tokio's `abort` leaves that to the runtime of the task. It never happens if that runtime is blocked, or if nobody drives it.
#[derive(Clone)]
pub(crate) struct Task {
    work: Arc<Work>,
    on_runtime: AbortHandle,
}

impl Task {
    /// Starts a task on a runtime.
    pub(crate) fn spawn_on(runtime: &Handle, future: impl Future<Output = ()> + Send + 'static) -> Self {
        let work = Arc::new(Work {
            future: Mutex::new(Some(Box::pin(future))),
            ended: AtomicBool::new(false),
            gone: CancellationToken::new(),
        });
        let on_runtime = runtime.spawn(Running(Arc::clone(&work))).abort_handle();
        Self { work, on_runtime }
    }

    /// Ends the task: it is not polled again. Returns whether it is being polled at this moment, and ends with that poll.
    pub(crate) fn end(&self) -> bool {
        let is_polled = self.work.end();
        // So that its runtime forgets it, too, when it runs again.
        self.on_runtime.abort();
        is_polled
    }

    /// Waits until its runtime has forgotten the task, because it was ended or is done.
    pub(crate) async fn gone(&self) {
        self.work.gone.cancelled().await;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.on_runtime.is_finished()
    }
}

struct Work {
    /// Locked while it is polled. That costs nothing to speak of: nobody else locks it before the task is ended.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    ended: AtomicBool,
    /// Cancelled when the runtime has dropped the task.
    gone: CancellationToken,
}

impl Work {
    /// Returns whether it is being polled.
    fn end(&self) -> bool {
        self.ended.store(true, Ordering::SeqCst);
        let future = match self.future.try_lock() {
            Ok(mut future) => future.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            // Its runtime drops it after that. To wait for it could take as long as what blocks it.
            Err(TryLockError::WouldBlock) => return true,
        };
        // Bound to a name, so that it is dropped when the lock is free again.
        drop(future);
        false
    }
}

/// What the runtime polls.
struct Running(Arc<Work>);

impl Running {
    fn poll_work(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut future = self.0.future.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *future {
            Some(work) if !self.0.ended.load(Ordering::SeqCst) => work.as_mut().poll(cx),
            _ => Poll::Ready(()),
        }
    }
}

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.poll_work(cx);
        // It may have been ended during the poll.
        if self.0.ended.load(Ordering::SeqCst) { Poll::Ready(()) } else { polled }
    }
}

impl Drop for Running {
    /// The task is done, or its runtime was shut down.
    fn drop(&mut self) {
        self.0.end();
        self.0.gone.cancel();
    }
}

/// Lets the other tasks that are ready run first. Tokio's `yield_now` does so, too, but ties the task to this thread: no other
/// thread could take it over from behind a task that runs for long.
pub(crate) async fn let_others_run() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits until a condition is met. Who changes what it depends on notifies all that wait, after the change.
pub(crate) async fn wait_until(changed: &Notify, condition: impl Fn() -> bool) {
    loop {
        // Asked for before the condition, so that no change in between is missed.
        let changed = changed.notified();
        if condition() {
            return;
        }
        changed.await;
    }
}

/// Calls a function when it is dropped.
pub(crate) struct OnDrop<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// How long the test waits for a thread.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_task_of_a_runtime_that_does_not_run_drops_what_it_owns_when_it_is_ended() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let dropped = CancellationToken::new();
        let owned = dropped.clone().drop_guard();
        let task = Task::spawn_on(runtime.handle(), async move {
            let _owned = owned;
            std::future::pending::<()>().await;
        });
        runtime.block_on(tokio::task::yield_now());
        assert!(!dropped.is_cancelled());
        assert!(!task.end());
        assert!(dropped.is_cancelled());
        runtime.block_on(task.gone());
        assert!(task.is_finished());
    }

    #[test]
    fn a_task_that_is_ended_while_it_is_polled_ends_with_that_poll() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let ((entered, is_entered), (leave, may_leave)) = (mpsc::channel(), mpsc::channel::<()>());
        let task = Task::spawn_on(runtime.handle(), async move {
            entered.send(()).unwrap();
            may_leave.recv_timeout(PATIENCE).unwrap();
            tokio::task::yield_now().await;
            unreachable!("polled again");
        });
        let running = thread::spawn({
            let task = task.clone();
            move || {
                runtime.block_on(async {
                    while !task.is_finished() {
                        tokio::task::yield_now().await;
                    }
                });
            }
        });
        is_entered.recv_timeout(PATIENCE).unwrap();
        // Returns although the poll goes on.
        assert!(task.end());
        leave.send(()).unwrap();
        running.join().unwrap();
    }

    #[test]
    fn a_runtime_that_is_shut_down_drops_what_its_tasks_own() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let dropped = CancellationToken::new();
        let owned = dropped.clone().drop_guard();
        let _task = Task::spawn_on(runtime.handle(), async move {
            let _owned = owned;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        assert!(dropped.is_cancelled());
    }
}
