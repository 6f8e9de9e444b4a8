use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store::Store;
use crate::node::{NodeError, ReplySender};

/// An access to the store, to be executed later.
pub(super) struct Delayed {
    pub(super) due: Instant,
    pub(super) execute: Box<Access>,
}

/// Uses the store at a time on the node's clock.
type Access = dyn FnOnce(&mut Store, Duration) + Send;

/// What the clones of a node share.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) state: Mutex<State>,
    /// Notified when a delayed request may be due earlier than it was.
    pub(super) delay_changed: Notify,
}

pub(super) struct State {
    pub(super) store: Store,
    /// Requests that are submitted and not executed, in order. Not bounded itself: callers only have so many under way, and each
    /// is executed or lost within the delay.
    pub(super) delayed: VecDeque<Delayed>,
    /// Executes the delayed requests, while there are any.
    pub(super) executor: Option<JoinHandle<()>>,
    /// Where the executor runs: a request may be submitted outside any runtime, for example by a guard that is dropped there.
    pub(super) runtime: Option<Handle>,
    /// Where lost replies would have gone. As with a real connection, the loss is reported when the link ends.
    pub(super) unanswered: Vec<ReplySender>,
    /// Stands for a connection: cancelled when the node goes down or restarts, replaced by the next inspection.
    pub(super) link: CancellationToken,
    pub(super) down: bool,
    pub(super) delay: Duration,
    pub(super) drop_replies: bool,
    pub(super) started: Instant,
    pub(super) started_micros: u64,
    pub(super) clock_offset: Duration,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time since the node was created, on its own clock.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed() + self.clock_offset
    }

    /// Loses everything that is under way, as when a connection breaks.
    pub(super) fn cut(&mut self) {
        self.delayed.clear();
        self.unanswered.clear();
        self.store.end_connections();
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

pub(super) fn connection_lost() -> NodeError {
    NodeError::ConnectionLost { reason: "the node went down".into() }
}
