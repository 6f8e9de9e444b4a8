//! Carries sequences out on a node and on the rules, and finds the shortest in which these differ.

use std::time::Duration;

use tokio::time::Instant;

use super::lack::{Lack, Lacks};
use super::outcome::{Failure, Outcome, Times};
use super::sequences::Sequence;
use super::side::{Side, fresh_keys};
use super::step::Step;
use crate::node::{EVICTION_GAP, Eviction, LockNode, MemoryNode, RESERVATION_TTL};

/// Carries sequences out on a node and on the rules.
pub(super) struct Runner<'a> {
    /// Makes the node of each sequence.
    pub(super) node: &'a dyn Fn() -> Box<dyn LockNode>,
    pub(super) lacks: &'a Lacks,
    pub(super) ttl: Duration,
}

/// What became of a sequence.
#[derive(Default)]
pub(super) struct Run {
    /// How many steps were compared.
    pub(super) compared: usize,
    /// Whether the rest was left out, because so much time had passed that something may have expired on one side alone.
    pub(super) is_late: bool,
    /// The first difference: in the last step that was compared, or in the wake-ups after all of them.
    pub(super) difference: Option<Difference>,
}

/// What the rules and the node replied.
pub(super) type Difference = (Outcome, Outcome);

fn difference(rules: Outcome, node: Outcome) -> Option<Difference> {
    (rules != node).then_some((rules, node))
}

impl Runner<'_> {
    pub(super) fn times(&self) -> Times {
        Times { ttl: self.ttl, are_unknown: self.lacks.has(Lack::Remaining) }
    }

    /// Within it, nothing expires on one side that the other may still have.
    fn time_limit(&self) -> Duration {
        let lock = if self.lacks.has(Lack::Remaining) { self.ttl / 2 } else { self.ttl / 50 };
        let has_gap = !self.lacks.has(Lack::Evict) && !self.lacks.has(Lack::PromptEviction);
        let gap = has_gap.then_some(EVICTION_GAP / 2);
        let reservation = (!self.lacks.has(Lack::WaitingRoom)).then_some(RESERVATION_TTL / 2);
        [gap, reservation].into_iter().flatten().fold(lock, Duration::min)
    }

    pub(super) async fn run(&self, Sequence { steps, listening }: &Sequence) -> Run {
        let (keys, memory, mut run) = (fresh_keys(), MemoryNode::new(), Run::default());
        let listening = if self.lacks.listens() { *listening } else { 0 };
        let side = |node: Box<dyn LockNode>| Side::new(node, &keys, listening, self.times());
        let (mut rules, mut node) = match tokio::join!(side(Box::new(memory.clone())), side((self.node)())) {
            (Ok(rules), Ok(node)) => (rules, node),
            (rules, node) => {
                let [rules, node] = [rules, node].map(|side| Outcome::Ready(side.map(drop).map_err(Failure)));
                run.difference = difference(rules, node);
                return run;
            }
        };
        let began = Instant::now();
        for step in steps {
            let step = if self.lacks.cannot_compare(step, rules.votes()) { &Step::Inspect } else { step };
            let for_rules = if self.lacks.has(Lack::Readers) { step.clone().of_writers() } else { step.clone() };
            let (of_rules, of_node) = tokio::join!(rules.carry_out(&for_rules), node.carry_out(step));
            if began.elapsed() >= self.time_limit() {
                run.is_late = true;
                return run;
            }
            run.compared += 1;
            let had_gap = of_rules == Outcome::Evicted(Ok(Eviction::Evicted { deleted: true }));
            if had_gap && self.lacks.has(Lack::PromptEviction) {
                memory.advance_clock(EVICTION_GAP);
            }
            let of_rules =
                if self.lacks.has(Lack::WaitingRoom) { of_rules.of_each_slot(step, &of_node) } else { of_rules };
            run.difference = difference(of_rules, of_node);
            if run.difference.is_some() {
                return run;
            }
        }
        let of_rules = rules.heard(&[]).await;
        let of_node = node.heard(&of_rules).await;
        run.difference = difference(Outcome::Heard(of_rules), Outcome::Heard(of_node));
        run
    }

    /// Leaves out of a sequence what its difference does not need. It is in the last step of those that are returned.
    pub(super) async fn shrink(&self, sequence: Sequence, at: usize, mut found: Difference) -> (Vec<Step>, Difference) {
        let Sequence { mut steps, listening } = sequence;
        steps.truncate(at);
        let mut try_with = async |fewer: Vec<Step>, steps: &mut Vec<Step>| {
            let sequence = Sequence { steps: fewer, listening };
            let Run { compared, difference: Some(difference), .. } = self.run(&sequence).await else { return false };
            (*steps, found) = (sequence.steps, difference);
            steps.truncate(compared);
            true
        };
        let one_by_one = steps.iter().flat_map(Step::one_by_one).collect();
        try_with(one_by_one, &mut steps).await;
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut from = 0;
            while from < steps.len() {
                let (before, after) = (&steps[..from], steps.get(from + size..).unwrap_or_default());
                let fewer = [before, after].concat();
                if !try_with(fewer, &mut steps).await {
                    from += size;
                }
            }
            size /= 2;
        }
        (steps, found)
    }
}
