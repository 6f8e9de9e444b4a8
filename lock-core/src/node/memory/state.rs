//! What the clones of a node share, and how requests reach the store, at once or with a delay.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::store::Store;
use crate::mutex::Mutex;
use crate::node::{NodeError, NodeFuture, ReplySender};

/// An access to the store at a time on the node's clock, and when it is due.
type Delayed = (Instant, Box<dyn FnOnce(&mut Store, Duration) + Send>);

/// What the clones of a node share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Notified when a delayed request may be due earlier than it was.
    pub(super) delay_changed: Notify,
}

pub(super) struct State {
    pub(super) store: Store,
    /// Requests that are submitted and not executed, in order. Not bounded itself: callers limit how many are under way, and each
    /// is executed or lost within the delay.
    pub(super) delayed: VecDeque<Delayed>,
    /// Execute the delayed requests, while there are any: one on each runtime that submits some, because any of these may be blocked.
    pub(super) executors: HashMap<Id, JoinHandle<()>>,
    /// Where requests are executed that are submitted outside any runtime, for example by a guard that is dropped there.
    pub(super) runtime: Option<Handle>,
    /// Where lost replies would have gone. As with a real connection, the loss is reported when the link ends.
    pub(super) unanswered: Vec<ReplySender>,
    /// Stands for a connection: cancelled when the node goes down or restarts, replaced by the next inspection.
    pub(super) link: CancellationToken,
    pub(super) down: bool,
    pub(super) delay: Duration,
    pub(super) drop_replies: bool,
    pub(super) started: Instant,
    /// What the node's clock showed then.
    pub(super) clock_began: Duration,
    pub(super) clock_offset: Duration,
}

impl Shared {
    /// Submits an access, and returns the future of its result.
    pub(super) fn submit<T: Send + 'static>(
        self: &Arc<Self>,
        access: impl FnOnce(&mut Store, Duration) -> Result<T, NodeError> + Send + 'static,
    ) -> NodeFuture<Result<T, NodeError>> {
        let (sender, result) = oneshot::channel();
        let mut state = self.state.lock();
        if state.is_cut() {
            return Box::pin(async { Err(is_down()) });
        }
        let (link, unanswered) = (state.link.clone(), state.drop_replies);
        self.execute(&mut state, move |store: &mut Store, now| _ = sender.send(access(store, now)));
        drop(state);
        Box::pin(async move {
            // As with a peer that is silent: no reply, and no error before the connection is cut.
            if unanswered {
                link.cancelled().await;
                return Err(connection_lost());
            }
            result.await.unwrap_or_else(|_| Err(connection_lost()))
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
        let earliest = state.delayed.back().map_or(state.started, |(due, _)| *due);
        let due = (Instant::now() + state.delay).max(earliest);
        state.delayed.push_back((due, Box::new(access)));
        self.execute_due(state);
        if !state.delayed.is_empty()
            && let Some(runtime) = Handle::try_current().ok().or_else(|| state.runtime.clone())
        {
            self.execute_on(&runtime, state);
        }
    }

    /// Has the delayed requests executed on a runtime, too.
    fn execute_on(self: &Arc<Self>, runtime: &Handle, state: &mut State) {
        let (shared, id) = (Arc::clone(self), runtime.id());
        state.executors.retain(|_, executor| !executor.is_finished());
        state.executors.entry(id).or_insert_with(|| runtime.spawn(async move { shared.execute_delayed(id).await }));
    }

    /// Executes what is due by now.
    pub(super) fn execute_due(&self, state: &mut State) {
        let now = Instant::now();
        while state.delayed.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, execute)) = state.delayed.pop_front()
        {
            let node_time = state.now();
            execute(&mut state.store, node_time);
        }
    }

    /// Executes each delayed access when it comes due, until there are none.
    async fn execute_delayed(&self, on: Id) {
        loop {
            let delay_changed = self.delay_changed.notified();
            let due = {
                let mut state = self.state.lock();
                self.execute_due(&mut state);
                let Some((due, _)) = state.delayed.front() else {
                    state.executors.remove(&on);
                    return;
                };
                *due
            };
            _ = timeout_at(due, delay_changed).await;
        }
    }
}

impl State {
    /// The time since the Unix epoch, on the node's clock.
    pub(super) fn now(&self) -> Duration {
        self.clock_began + self.started.elapsed() + self.clock_offset
    }

    /// Loses everything that is under way, as when a connection breaks.
    pub(super) fn cut(&mut self) {
        self.delayed.clear();
        self.unanswered.clear();
        self.store.waiting.listeners.clear();
        self.link.cancel();
    }

    /// Whether requests do not get through: the node is down, or was, and has not been inspected since.
    pub(super) fn is_cut(&self) -> bool {
        self.down || self.link.is_cancelled()
    }
}

pub(super) fn is_down() -> NodeError {
    NodeError::Unreachable { reason: "the node is down".into() }
}

fn connection_lost() -> NodeError {
    NodeError::ConnectionLost { reason: "the node went down".into() }
}
