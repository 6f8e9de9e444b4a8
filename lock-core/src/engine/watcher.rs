use std::cell::Cell;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Home;
use crate::task::let_others_run;

/// How often each other runtime asks the home whether it runs.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);
/// After how many questions in a row without an answer the background work moves.
const MAX_UNANSWERED: u32 = 4;

thread_local! {
    /// The home that was last started on this thread, and on which runtime: it is being watched from there.
    static STARTED: Cell<Option<(u64, Id)>> = const { Cell::new(None) };
}

impl Home {
    /// Makes sure that the background work runs, and that the present runtime watches it. Outside a runtime it does nothing.
    pub(crate) fn start(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        // The common case, without a lock: every acquisition passes here.
        let here = Some((self.id, runtime.id()));
        let is_watched = STARTED.get() == here && !self.is_vacant();
        if is_watched || self.stop.is_cancelled() {
            return;
        }
        let (is_new, tenure) = self.watch_from(runtime.id());
        if self.is_vacant() {
            self.move_to(&runtime, tenure);
        }
        if is_new {
            runtime.spawn(Watcher::new(Arc::clone(self), runtime.id()).watch());
        }
        STARTED.set(here);
    }

    /// Runs work on the home, because it may open connections. Begins it again if the home moves meanwhile. Returns `None` if the
    /// background work has [ended](Self::end).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work goes on.
    ///
    /// # Panics
    ///
    /// If the work does, which calls code of others: with the same panic.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, work: impl Fn() -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = self.changed.notified();
            if self.stop.is_cancelled() {
                return None;
            }
            self.start();
            if self.is_vacant() {
                // Outside a runtime, or its runtime was just shut down.
                return Some(work().await);
            }
            let (sender, output) = oneshot::channel();
            let work = work();
            // Caught, or it would be taken for the end of the home, and another one awaited.
            self.spawn(async move { _ = sender.send(AssertUnwindSafe(work).catch_unwind().await) });
            match output.await {
                Ok(Ok(output)) => return Some(output),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => changed.await,
            }
        }
    }
}

/// Watches the home from one runtime.
pub(super) struct Watcher {
    home: Arc<Home>,
    runtime: Id,
}

impl Watcher {
    pub(super) fn new(home: Arc<Home>, runtime: Id) -> Self {
        Self { home, runtime }
    }

    /// Moves the work to this runtime when its home was shut down or does not answer.
    pub(super) async fn watch(self) {
        let home = &self.home;
        let mut silence = Silence::none();
        loop {
            // Asked for before the state is read, so that no change in between is missed.
            let changed = home.changed.notified();
            let (tenure, at) = home.tenure();
            let is_here = at == Some(self.runtime);
            if home.is_vacant() && !home.stop.is_cancelled() {
                home.move_to(&Handle::current(), tenure);
                // A runtime that is being shut down drops the work at once, so that the home is vacant again, and this watcher only when
                // it awaits something.
                let_others_run().await;
                continue;
            }
            let answers = home.answers.load(Ordering::Acquire);
            if !is_here {
                home.asked.notify_one();
            }
            tokio::select! {
                biased;
                () = home.stop.cancelled() => return,
                () = changed => silence = Silence::none(),
                () = sleep(ASK_EVERY), if !is_here => {
                    if home.answers.load(Ordering::Acquire) != answers {
                        silence = Silence::none();
                    } else if silence.goes_on() && home.move_to(&Handle::current(), tenure) {
                        log_event!(warn: "lock.runtime_stalled", "the runtime that kept the connections and renewed \
                            the leases did not run; another one took over");
                    }
                }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.home.forget(self.runtime);
    }
}

/// For how long the home has not answered.
struct Silence {
    unanswered: u32,
    /// In real time: where the clock is paused, all of the questions may be asked in one moment.
    since: std::time::Instant,
}

impl Silence {
    fn none() -> Self {
        Self { unanswered: 0, since: std::time::Instant::now() }
    }

    /// Another question was not answered. Returns whether that is enough. Questions are counted, too, because a process that
    /// was stopped goes on with a long silence.
    fn goes_on(&mut self) -> bool {
        self.unanswered += 1;
        self.unanswered >= MAX_UNANSWERED && self.since.elapsed() >= ASK_EVERY * (MAX_UNANSWERED - 1)
    }
}
