use std::fmt;
use std::io::{self, Write};

use super::queue::QueueSetting;
use super::run::{Outcome, explore, explore_queue};
use super::setting::Setting;

/// What can be gone through.
#[derive(Clone, Debug)]
pub enum Checked {
    /// Locks without a queue.
    Locks(Setting),
    /// The queue.
    Queue(QueueSetting),
}

impl Checked {
    fn explore(&self, tell: impl Fn(usize, usize)) -> Outcome {
        match self {
            Self::Locks(setting) => explore(setting.clone(), None, tell),
            Self::Queue(setting) => explore_queue(setting.clone(), None, tell),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locks(setting) => setting.fmt(f),
            Self::Queue(setting) => setting.fmt(f),
        }
    }
}

/// Goes through all states of these, and writes the runs that break a promise, and a table. Whether all promises hold. `tell` is
/// told what is under way.
///
/// # Errors
///
/// Those of `out`.
pub fn report(models: Vec<Checked>, out: &mut impl Write, tell: impl Fn(String)) -> io::Result<bool> {
    let mut outcomes = Vec::new();
    for model in models {
        tell(model.to_string());
        let outcome = model.explore(|states, depth| tell(format!("  {states} states, depth {depth}")));
        outcome.violations.iter().try_for_each(|violation| writeln!(out, "{model}\n{violation}"))?;
        outcomes.push((model, outcome));
    }
    writeln!(out, "{:>12} {:>6} {:>8}  {:<10} setting", "states", "depth", "seconds", "properties")?;
    let mut all_hold = true;
    for (model, outcome) in outcomes {
        let (broken, all) = (outcome.violations.len(), outcome.properties.len());
        let held = if broken == 0 { format!("all {all} hold") } else { format!("{broken} BROKEN") };
        let seconds = outcome.took.as_secs_f64();
        writeln!(out, "{:>12} {:>6} {seconds:>8.1}  {held:<10} {model}", outcome.states, outcome.depth)?;
        all_hold &= broken == 0;
    }
    Ok(all_hold)
}
