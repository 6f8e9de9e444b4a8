use std::fmt;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use super::lack::{Lack, Lacks};
use super::outcome::{Failure, Outcome, Times};
use super::sequences::Sequence;
use super::side::{Side, fresh_keys};
use super::step::{Step, acquire};
use super::{concurrent, ends, timed};
use crate::node::{EVICTION_GAP, Eviction, Kind, LockNode, MemoryNode, RESERVATION_TTL};

/// A comparison of a node with the rules.
///
/// # Examples
///
/// ```
/// use lock_core::MemoryNode;
/// use lock_core::node::conformance::Conformance;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let report = Conformance::default().sequences(20).check(MemoryNode::new).await?;
/// assert!(report.compared > 100);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is compared before check is awaited"]
pub struct Conformance {
    lacks: Lacks,
    seed: u64,
    sequences: u64,
    ttl: Duration,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many steps had the same replies on both sides.
    pub compared: usize,
    /// How many sequences were cut short, because they took so long that something may have expired on one side alone. A node that is
    /// too slow for all of them has not been compared with much.
    pub cut_short: usize,
}

/// A sequence in which a node and the rules differ: the shortest that was found.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("the node and the rules differ (seed {seed:?})\n{}\nthe rules: {rules}\n the node: {node}", steps.join("\n"))]
pub struct Divergence {
    /// The seed from which the sequence was drawn; `None` for one that is always tried.
    pub seed: Option<u64>,
    /// The steps. The last is the one that has different replies.
    pub steps: Vec<String>,
    /// What the rules reply.
    pub rules: String,
    /// What the node replied.
    pub node: String,
}

/// As [`Display`](fmt::Display), so that a test that unwraps it shows the steps line by line.
impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Default for Conformance {
    fn default() -> Self {
        Self { lacks: Lacks::default(), seed: 1, sequences: 100, ttl: Duration::from_secs(1000) }
    }
}

impl Conformance {
    /// What the node does without. Defaults to nothing.
    pub fn lacks(self, lacks: impl IntoIterator<Item = Lack>) -> Self {
        Self { lacks: Lacks(lacks.into_iter().collect()), ..self }
    }

    /// From what the first sequence is drawn; the next ones follow from the next numbers. Defaults to 1.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// How many random sequences there are, of up to 60 steps. Defaults to 100.
    pub fn sequences(self, sequences: u64) -> Self {
        Self { sequences, ..self }
    }

    /// How long the locks live, up to three times this: much longer than a sequence takes. Defaults to 1000 s. For a store that has a
    /// bound of its own.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Compares the nodes that `node` returns, one for each sequence. They may be one and the same: each sequence has keys of its own.
    ///
    /// It needs a runtime with a clock that is not paused.
    ///
    /// # Errors
    ///
    /// The first [`Divergence`] that was found.
    pub async fn check<N: LockNode>(&self, node: impl Fn() -> N) -> Result<Report, Divergence> {
        let node = || -> Box<dyn LockNode> { Box::new(node()) };
        let runner = Runner { node: &node, lacks: &self.lacks, ttl: self.ttl };
        let mut report = Report::default();
        let always = Sequence::always(self.ttl).into_iter().map(|sequence| (None, sequence));
        let drawn = (0..self.sequences).map(|number| {
            let seed = self.seed.wrapping_add(number);
            (Some(seed), Sequence::drawn(seed, &self.lacks, self.ttl))
        });
        for (seed, Sequence { steps, listening }) in always.chain(drawn) {
            let steps = opening(self.ttl).into_iter().chain(steps).chain([Step::Inspect]);
            let steps = steps.filter_map(|step| self.lacks.take_out(step)).collect();
            let sequence = Sequence { steps, listening };
            let Run { compared, is_late, difference } = runner.run(&sequence).await;
            if let Some(difference) = difference {
                let (steps, (rules, node)) = runner.shrink(sequence, compared, difference).await;
                let steps = steps.iter().map(|step| format!("{step:?}")).collect();
                return Err(Divergence { seed, steps, rules: format!("{rules:?}"), node: format!("{node:?}") });
            }
            report.compared += compared;
            report.cut_short += usize::from(is_late);
        }
        ends::check(&runner).await?;
        concurrent::check(&runner).await?;
        report.cut_short += timed::check(&runner).await?;
        Ok(report)
    }
}

/// What every sequence begins with: a node without a record grants nothing, and then it is admitted.
fn opening(ttl: Duration) -> [Step; 2] {
    [Step::request(1, 0, acquire(1, None, 0, Kind::Write, ttl)), Step::admit()]
}

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
