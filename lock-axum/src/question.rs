use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout_at};

/// How long an answer is awaited before the masters are asked again. They take three seconds at most, unless the runtime that hears from
/// them does not run.
const MAX_WAIT: Duration = Duration::from_secs(4);

/// What the masters are asked for all who want to know. Each of these polls it on its own runtime: no other one can keep the answer from
/// them.
#[derive(Clone)]
pub(crate) struct Question<T> {
    asked: Instant,
    /// What they said, and when.
    answer: Shared<BoxFuture<'static, (Instant, T)>>,
}

impl<T: Clone + Send + Sync + 'static> Question<T> {
    /// Asks it. In a task, too, so that who gives up, or stops reading, leaves the answer to the others.
    pub(crate) fn ask(asking: impl Future<Output = T> + Send + 'static) -> Self {
        let answer = asking.map(|answer| (Instant::now(), answer)).boxed().shared();
        tokio::spawn(answer.clone());
        Self { asked: Instant::now(), answer }
    }

    /// Whether its answer is no older than this, or may still come.
    pub(crate) fn is_of_use(&self, max_age: Duration) -> bool {
        match self.answer.peek() {
            Some((at, _)) => at.elapsed() < max_age,
            None => self.asked.elapsed() < MAX_WAIT,
        }
    }

    /// The answer, and when it came, if it has.
    #[cfg(feature = "dashboard")]
    pub(crate) fn answered(&self) -> Option<(Instant, T)> {
        self.answer.peek().cloned()
    }

    /// The answer, unless it is not awaited any longer.
    pub(crate) async fn answer(self) -> Option<T> {
        timeout_at(self.asked + MAX_WAIT, self.answer).await.ok().map(|(_, answer)| answer)
    }
}
