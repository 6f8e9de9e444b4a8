use std::sync::Arc;
use std::time::Duration;

use lock_core::{Health, LockManager, Mutex, NodeError, NodeHealth};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::readyz::MAX_WAIT;

/// How often the masters are asked while somebody looks.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// After which time an answer is not shown any more, because nobody looked meanwhile. An answer takes up to three seconds.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// What the masters said last. They are asked while somebody looks, and only then.
#[derive(Default)]
pub(super) struct Masters {
    last: Arc<Mutex<Option<Answer>>>,
    /// When they were asked last.
    asked: Mutex<Option<Instant>>,
}

struct Answer {
    /// When they were asked for it.
    asked: Instant,
    at: Instant,
    health: Health,
}

impl Masters {
    /// Asks the masters, if nobody does and their answer is not a recent one.
    ///
    /// In a task, because the answer is for all pages, and the one that asks may close, or stop reading.
    pub(super) fn ask_if_due(&self, locks: &LockManager) {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        if asked.is_some_and(|asked| !self.is_due(asked, now)) {
            return;
        }
        *asked = Some(now);
        let (locks, last) = (locks.clone(), Arc::clone(&self.last));
        tokio::spawn(async move {
            let health = locks.health().await;
            let mut last = last.lock();
            // One that was given up may come after the answer to a later question.
            if last.as_ref().is_none_or(|last| last.asked < now) {
                *last = Some(Answer { asked: now, at: Instant::now(), health });
            }
        });
    }

    /// Whether the question that was asked at this time has an answer that is not recent, or will have none.
    fn is_due(&self, asked: Instant, now: Instant) -> bool {
        match &*self.last.lock() {
            Some(answer) if answer.asked >= asked => now.saturating_duration_since(answer.at) >= ASK_EVERY,
            _ => now.saturating_duration_since(asked) >= MAX_WAIT,
        }
    }

    /// Whether a majority grants locks, in which shards none does if it does in others, and each master; null and none if that is not known.
    pub(super) fn view(&self) -> (Option<bool>, Vec<u32>, Vec<Value>) {
        match &*self.last.lock() {
            Some(Answer { at, health, .. }) if at.elapsed() < FORGET_AFTER => {
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
