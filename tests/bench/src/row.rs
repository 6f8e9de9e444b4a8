//! One figure, what it is held against, and its target.

use serde::Serialize;

use super::Spread;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The part that measured it.
    pub part: &'static str,
    /// What was measured.
    pub figure: String,
    /// What it is measured in.
    pub unit: Unit,
    /// The engine's. `None` if it failed; the notes say how.
    pub ours: Option<Spread>,
    /// What it is held against.
    pub against: Option<Against>,
    /// The engine's by the other's.
    pub ratio: Option<Spread>,
    /// What is wanted.
    pub target: Option<Target>,
    /// Whether it is so. `None` without a target, or if there is nothing to judge because the other one failed.
    pub met: Option<bool>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
}

/// What a figure is held against.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// Its name.
    pub name: String,
    /// Its figure. `None` if it failed; the notes say how.
    pub figure: Option<Spread>,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Target {
    /// Of which number.
    pub of: Judged,
    /// At least so much.
    pub at_least: Option<f64>,
    /// At most so much.
    pub at_most: Option<f64>,
    /// What would be even better.
    pub aim: Option<f64>,
}

/// Which number a target is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The engine's by the other's.
    Ratio,
    /// The engine's own.
    Ours,
}

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// So many a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A plain number.
    Number,
}

impl Row {
    /// A figure, from its rounds. Without any the engine failed.
    pub(super) fn new(part: &'static str, figure: impl Into<String>, unit: Unit, ours: &[f64]) -> Self {
        let ours = Spread::of(ours);
        let figure = figure.into();
        Self { part, figure, unit, ours, against: None, ratio: None, target: None, met: None, notes: Vec::new() }
    }

    /// Held against another's, in pairs: round by round of `ours`.
    pub(super) fn against(mut self, name: impl Into<String>, ours: &[f64], other: &[f64]) -> Self {
        self.ratio = Spread::of_ratios(ours, other);
        self.against = Some(Against { name: name.into(), figure: Spread::of(other) });
        self
    }

    /// Wants the ratio, or where there is nothing to compare with, the figure itself to be at most this.
    pub(super) fn at_most(self, most: f64) -> Self {
        self.judge(None, None, Some(most), None)
    }

    /// As [`at_most`](Self::at_most), for the figure itself, whatever it is held against.
    pub(super) fn own_at_most(self, most: f64) -> Self {
        self.judge(Some(Judged::Ours), None, Some(most), None)
    }

    /// Wants the ratio to be at least this.
    pub(super) fn at_least(self, least: f64) -> Self {
        self.judge(None, Some(least), None, None)
    }

    /// As [`at_least`](Self::at_least); this much would be even better.
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

    /// By the median.
    fn judge(mut self, of: Option<Judged>, at_least: Option<f64>, at_most: Option<f64>, aim: Option<f64>) -> Self {
        let of = of.unwrap_or(if self.against.is_some() { Judged::Ratio } else { Judged::Ours });
        let judged = if of == Judged::Ratio { self.ratio } else { self.ours };
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
    fn a_target_is_met_missed_or_can_not_be_judged() {
        assert_eq!(row(&[1.0], &[2.0]).met, Some(true));
        assert_eq!(row(&[1.6], &[2.0]).met, Some(false));
        assert_eq!(row(&[1.0], &[]).met, None, "the peer failed");
        assert_eq!(row(&[], &[2.0]).met, Some(false), "the engine failed");
        let alone = Row::new("part", "figure", Unit::Number, &[3.0]).at_least(3.0);
        assert_eq!((alone.met, alone.target.unwrap().of), (Some(true), Judged::Ours));
    }
}
