use std::time::Duration;

use super::divergence::Divergence;
use super::lack::{Lack, Lacks};
use super::runner::{Run, Runner};
use super::sequences::Sequence;
use super::step::{Step, acquire};
use super::{concurrent, ends, timed};
use crate::node::{Kind, LockNode};

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
