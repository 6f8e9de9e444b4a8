use std::fmt;

use super::advice::advice;
use super::problem::Problem;
use super::question::Question;
use super::schedule::{Schedule, letter};

/// What a [`Trial`](super::Trial) found. Its [`Display`](fmt::Display) tells the first schedule of each kind that breaks the check, step by step, and what
/// to do about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How many runs were made.
    pub runs: usize,
    /// The schedules in which the check was false, in the order of [`Question::ALL`], those of few steps first.
    pub broken: Vec<Schedule>,
    /// What locks that exclude nobody would let happen; `None` if that was not asked, or no request takes a lock.
    pub unlocked: Option<Unlocked>,
    /// What could not be tried.
    pub problems: Vec<Problem>,
    /// Whether any request takes a lock when the requests run one after another.
    pub takes_locks: bool,
    /// How many schedules each question had.
    pub(super) tried: Vec<(Question, usize)>,
    /// The requests that make no step.
    pub(super) never_held: Vec<usize>,
    labels: Vec<String>,
}

/// What happens with locks that exclude nobody.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Unlocked {
    /// How many schedules were tried.
    pub schedules: usize,
    /// Those in which the check was false: what the lock is there for. If there is none, the data
    /// protects itself: by one statement, a constraint, or claims of tokens, which increase all the same.
    pub broken: Vec<Schedule>,
}

impl Outcome {
    pub(super) fn new(labels: Vec<String>) -> Self {
        Self {
            runs: 0,
            broken: Vec::new(),
            unlocked: None,
            problems: Vec::new(),
            takes_locks: false,
            tried: Vec::new(),
            never_held: Vec::new(),
            labels,
        }
    }

    /// Whether everything was tried, and no schedule breaks the check.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty() && self.problems.is_empty()
    }

    /// Whether a schedule of this question breaks the check.
    #[must_use]
    pub fn breaks(&self, question: Question) -> bool {
        self.broken.iter().any(|schedule| schedule.question == question)
    }

    /// # Panics
    ///
    /// If a schedule breaks the check, with the first of each question, or if something could not be tried.
    #[track_caller]
    pub fn assert_holds(&self) {
        assert!(self.holds(), "{self}");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut quiet = Vec::new();
        for (question, schedules) in &self.tried {
            let schedules = counted(*schedules, "schedule");
            let broken: Vec<_> = self.broken.iter().filter(|schedule| schedule.question == *question).collect();
            let Some(example) = broken.first() else {
                quiet.push(format!("{question}: none of {schedules}"));
                continue;
            };
            let (requests, broken) = (counted(self.labels.len(), "request"), broken.len());
            let verb = if broken == 1 { "breaks" } else { "break" };
            writeln!(f, "{question}: {requests}, {schedules}, {broken} {verb} the check")?;
            writeln!(f, "{example}")?;
            writeln!(f, "  {}", advice(example, self.takes_locks))?;
        }
        if !quiet.is_empty() {
            writeln!(f, "the check holds: {}", quiet.join(", "))?;
        }
        match &self.unlocked {
            Some(Unlocked { schedules, broken }) if broken.is_empty() => {
                let schedules = counted(*schedules, "schedule");
                writeln!(
                    f,
                    "without locks none of {schedules} breaks it either: the data protects itself, by a claim or a constraint"
                )?;
            }
            Some(Unlocked { schedules, broken }) => {
                writeln!(
                    f,
                    "without locks {} of {} {} it: the lock is needed",
                    broken.len(),
                    counted(*schedules, "schedule"),
                    if broken.len() == 1 { "breaks" } else { "break" }
                )?;
            }
            None if !self.takes_locks && !self.tried.is_empty() => writeln!(f, "no request takes a lock")?,
            None => {}
        }
        if self.never_held.len() < self.labels.len() {
            for request in &self.never_held {
                writeln!(f, "{} makes no step: it was never held, and ran as one piece", letter(*request))?;
            }
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "not tried: {problem}"))?;
        write!(f, "{}", counted(self.runs, "run"))
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
