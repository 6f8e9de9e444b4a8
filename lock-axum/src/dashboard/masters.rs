use std::time::Duration;

use lock_core::{Health, LockManager, Mutex, NodeError, NodeHealth};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::question::Question;

/// How often the masters are asked while somebody looks.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// After which time an answer is not shown any more, because nobody looked meanwhile. An answer takes up to three seconds.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// What the masters said last, and when. They are asked while somebody looks, and only then.
#[derive(Default)]
pub(super) struct Masters(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    question: Option<Question<Health>>,
    /// The last answer: it is shown while the next one is on its way.
    last: Option<(Instant, Health)>,
}

impl Masters {
    /// Asks the masters, if nobody does and their answer is not a recent one. The answer is for all pages.
    pub(super) fn ask_if_due(&self, locks: &LockManager) {
        let mut asked = self.0.lock();
        let Asked { question, last } = &mut *asked;
        if let Some(answer) = question.as_ref().and_then(Question::answered) {
            *last = Some(answer);
        }
        if question.as_ref().is_none_or(|question| !question.is_of_use(ASK_EVERY)) {
            let locks = locks.clone();
            *question = Some(Question::ask(async move { locks.health().await }));
        }
    }

    /// Whether a majority grants locks, in which shards none does if it does in others, and each master; null and none if that is not known.
    pub(super) fn view(&self) -> (Option<bool>, Vec<u32>, Vec<Value>) {
        match &self.0.lock().last {
            Some((at, health)) if at.elapsed() < FORGET_AFTER => {
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
