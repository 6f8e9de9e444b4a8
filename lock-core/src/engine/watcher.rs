use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::sleep;

use super::Home;

/// How often each other runtime asks the home whether it runs.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);
/// After how many questions in a row without an answer the background work moves.
const MAX_UNANSWERED: u32 = 4;

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
                        tracing::warn!(name: "lock.runtime_stalled", "the runtime that kept the connections and renewed \
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
