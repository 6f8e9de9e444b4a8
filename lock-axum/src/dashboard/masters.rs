use std::sync::Arc;
use std::time::Duration;

use lock_core::{Health, LockManager, Mutex, NodeError, NodeHealth};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How often the masters are asked while somebody looks.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// After which time an answer is not shown any more, because nobody looked meanwhile. An answer takes up to three seconds.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// What the masters said last. They are asked while somebody looks, and only then.
pub(super) struct Masters {
    last: Arc<Mutex<Option<Answer>>>,
    /// One permit: for the task that asks.
    asking: Arc<Semaphore>,
}

struct Answer {
    at: Instant,
    health: Health,
}

impl Masters {
    pub(super) fn new() -> Self {
        Self { last: Arc::default(), asking: Arc::new(Semaphore::new(1)) }
    }

    /// Asks the masters, if nobody does and their answer is not a recent one.
    ///
    /// In a task, because the answer is for all pages, and the one that asks may close, or stop reading.
    pub(super) fn ask_if_due(&self, locks: &LockManager) {
        let is_recent = self.last.lock().as_ref().is_some_and(|answer| answer.at.elapsed() < ASK_EVERY);
        if is_recent {
            return;
        }
        let Ok(asking) = Arc::clone(&self.asking).try_acquire_owned() else { return };
        let (locks, last) = (locks.clone(), Arc::clone(&self.last));
        tokio::spawn(async move {
            let health = locks.health().await;
            *last.lock() = Some(Answer { at: Instant::now(), health });
            drop(asking);
        });
    }

    /// Whether a majority grants locks, in which shards none does if it does in others, and each master; null and none if that is not known.
    pub(super) fn view(&self) -> (Option<bool>, Vec<u32>, Vec<Value>) {
        match &*self.last.lock() {
            Some(Answer { at, health }) if at.elapsed() < FORGET_AFTER => {
                let without = &health.shards_without_quorum;
                let has_other = health.nodes.iter().any(|node| !without.contains(&node.shard));
                let some = if has_other { without.clone() } else { Vec::new() };
                (Some(health.quorum), some, health.nodes.iter().map(view).collect())
            }
            _ => (None, Vec::new(), Vec::new()),
        }
    }
}

fn view(node: &NodeHealth) -> Value {
    json!({
        "name": node.name,
        "state": state(node),
        "round_trip_ms": node.round_trip.map(|time| time.as_secs_f64() * 1e3),
        "problem": node.problem.as_ref().map(ToString::to_string),
    })
}

fn state(node: &NodeHealth) -> &'static str {
    match &node.problem {
        None => "up",
        Some(NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. }) => "down",
        Some(NodeError::TimedOut | NodeError::HeldUp { .. }) => "hung",
        // It grants nothing before every lock has ended that was granted without it.
        Some(NodeError::Quarantined { .. } | NodeError::Unadmitted) => "joining",
        Some(NodeError::NotMember(_)) => "not-member",
        Some(_) => "refused",
    }
}
