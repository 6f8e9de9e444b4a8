//! One figure, its baseline, and its target.

use serde::Serialize;

use super::Spread;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The part that measured it.
    pub part: &'static str,
    /// What was measured.
    pub figure: String,
    /// Its unit.
    pub unit: Unit,
    /// The figure of the engine. `None` if it failed; the notes say how.
    pub ours: Option<Spread>,
    /// What it is compared with.
    pub baseline: Option<Baseline>,
    /// The engine's figure divided by the baseline's.
    pub ratio: Option<Spread>,
    /// What it should be.
    pub target: Option<Target>,
    /// Whether the target is met. `None` without a target, or if the baseline that it needs failed.
    pub met: Option<bool>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// What a figure is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// Its name.
    pub name: String,
    /// Its figure. `None` if it failed; the notes say how.
    pub figure: Option<Spread>,
}

/// A target.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Target {
    /// The number that it applies to.
    pub of: TargetOf,
    /// The smallest value that meets it.
    pub at_least: Option<f64>,
    /// The largest value that meets it.
    pub at_most: Option<f64>,
    /// A value that would be better still.
    pub aim: Option<f64>,
}

/// The number that a target applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetOf {
    /// The ratio to the baseline.
    Ratio,
    /// The figure of the engine.
    Ours,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A rate per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A plain number.
    Number,
}

impl Row {
    /// A figure, from its rounds. Without any, the engine failed.
    pub(super) fn new(part: &'static str, figure: impl Into<String>, unit: Unit, ours: &[f64]) -> Self {
        let ours = Spread::of(ours);
        let figure = figure.into();
        Self { part, figure, unit, ours, baseline: None, ratio: None, target: None, met: None, notes: Vec::new() }
    }

    /// Compares with a baseline, round by round of `ours`.
    pub(super) fn against(mut self, name: impl Into<String>, ours: &[f64], other: &[f64]) -> Self {
        self.ratio = Spread::of_ratios(ours, other);
        self.baseline = Some(Baseline { name: name.into(), figure: Spread::of(other) });
        self
    }

    /// Sets an upper limit for the ratio or, without a baseline, for the figure itself.
    pub(super) fn at_most(self, most: f64) -> Self {
        self.judge(None, None, Some(most), None)
    }

    /// Sets an upper limit for the figure itself, with or without a baseline.
    pub(super) fn own_at_most(self, most: f64) -> Self {
        self.judge(Some(TargetOf::Ours), None, Some(most), None)
    }

    /// Sets a lower limit for the ratio or, without a baseline, for the figure itself.
    pub(super) fn at_least(self, least: f64) -> Self {
        self.judge(None, Some(least), None, None)
    }

    /// As [`at_least`](Self::at_least), with a value that would be better still.
    pub(super) fn at_least_aiming(self, least: f64, aim: f64) -> Self {
        self.judge(None, Some(least), None, Some(aim))
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Notes failures, if there were any.
    pub(super) fn failures(self, whose: &str, failures: u64) -> Self {
        if failures == 0 { self } else { self.note(format!("{whose}: {failures} cycles failed")) }
    }

    /// Sets the target, and decides by the median whether it is met.
    fn judge(mut self, of: Option<TargetOf>, at_least: Option<f64>, at_most: Option<f64>, aim: Option<f64>) -> Self {
        let of = of.unwrap_or(if self.baseline.is_some() { TargetOf::Ratio } else { TargetOf::Ours });
        let judged = if of == TargetOf::Ratio { self.ratio } else { self.ours };
        let holds =
            |value: f64| at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most);
        self.met = match (self.ours, judged) {
            (None, _) => Some(false),
            (_, judged) => judged.map(|spread| holds(spread.median)),
        };
        self.target = Some(Target { of, at_least, at_most, aim });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], other: &[f64]) -> Row {
        Row::new("part", "figure", Unit::Seconds, ours).against("peer", ours, other).at_most(0.75)
    }

    #[test]
    fn a_target_is_met_missed_or_undecided() {
        assert_eq!(row(&[1.0], &[2.0]).met, Some(true));
        assert_eq!(row(&[1.6], &[2.0]).met, Some(false));
        assert_eq!(row(&[1.0], &[]).met, None, "the peer failed");
        assert_eq!(row(&[], &[2.0]).met, Some(false), "the engine failed");
        let alone = Row::new("part", "figure", Unit::Number, &[3.0]).at_least(3.0);
        assert_eq!((alone.met, alone.target.unwrap().of), (Some(true), TargetOf::Ours));
    }
}
