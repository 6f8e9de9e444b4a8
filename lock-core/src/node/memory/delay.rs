use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::state::{Delayed, Shared, State, connection_lost, is_down};
use super::store::Store;
use crate::node::{NodeError, NodeFuture};

impl Shared {
    /// Submits an access, and returns the future of its result.
    pub(super) fn submit<T: Send + 'static>(
        self: &Arc<Self>,
        access: impl FnOnce(&mut Store, Duration) -> T + Send + 'static,
    ) -> NodeFuture<Result<T, NodeError>> {
        let (sender, result) = oneshot::channel();
        let mut state = self.lock();
        if state.is_cut() {
            return Box::pin(async { Err(is_down()) });
        }
        let (link, unanswered) = (state.link.clone(), state.drop_replies);
        self.execute(&mut state, move |store: &mut Store, now| _ = sender.send(access(store, now)));
        drop(state);
        Box::pin(async move {
            if unanswered {
                link.cancelled().await;
                return Err(connection_lost());
            }
            result.await.map_err(|_| connection_lost())
        })
    }

    /// Executes an access when the node's delay has passed.
    pub(super) fn execute(
        self: &Arc<Self>,
        state: &mut State,
        access: impl FnOnce(&mut Store, Duration) + Send + 'static,
    ) {
        // Nearly always.
        if state.delay.is_zero() && state.delayed.is_empty() {
            let now = state.now();
            return access(&mut state.store, now);
        }
        // Never before an earlier access, whatever the delay was changed to in between.
        let earliest = state.delayed.back().map_or(state.started, |last| last.due);
        let due = (Instant::now() + state.delay).max(earliest);
        state.delayed.push_back(Delayed { due, execute: Box::new(access) });
        self.execute_due(state);
        let is_running = state.executor.as_ref().is_some_and(|executor| !executor.is_finished());
        if !state.delayed.is_empty() && !is_running {
            let runtime = Handle::try_current().ok().or_else(|| state.runtime.clone());
            let shared = Arc::clone(self);
            state.executor = runtime.map(|runtime| runtime.spawn(async move { shared.execute_delayed().await }));
        }
    }

    /// Executes what is due by now.
    pub(super) fn execute_due(&self, state: &mut State) {
        let now = Instant::now();
        while state.delayed.front().is_some_and(|delayed| delayed.due <= now) {
            let node_time = state.now();
            if let Some(delayed) = state.delayed.pop_front() {
                (delayed.execute)(&mut state.store, node_time);
            }
        }
    }

    /// Executes each delayed access when it comes due, until there are none.
    async fn execute_delayed(&self) {
        loop {
            let delay_changed = self.delay_changed.notified();
            let due = {
                let mut state = self.lock();
                self.execute_due(&mut state);
                let Some(next) = state.delayed.front() else {
                    state.executor = None;
                    return;
                };
                next.due
            };
            tokio::select! {
                biased;
                () = sleep_until(due) => {}
                () = delay_changed => {}
            }
        }
    }
}
