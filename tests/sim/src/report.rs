use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::plan::Scenario;
use super::run::{Outcome, run};
use lock_fake_redis::Flaw;

/// The results of a range of seeds.
#[derive(Debug, Default)]
pub struct Report {
    /// How many seeds were run.
    pub runs: u64,
    /// How many locks were granted in all runs.
    pub grants: u64,
    /// How many leases were lost.
    pub losses: u64,
    /// How many writes the resources refused.
    pub refused_writes: u64,
    /// The longest that a client waited in line after the faults.
    pub longest_wait: Duration,
    /// How many faults of each kind were injected.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many requests of each kind there were, and how many wake-ups and handovers.
    pub activity: BTreeMap<&'static str, u64>,
    /// The runs in which a promise was broken, by seed, each with its history.
    pub failures: Vec<Outcome>,
    scenario: Option<Scenario>,
}

/// Runs a range of seeds on all processors. Stops after `most_failures` failed runs.
///
/// # Panics
///
/// If a run panics.
#[must_use]
pub fn run_all(seeds: Range<u64>, scenario: Scenario, flaw: Option<Flaw>, max_failures: usize) -> Report {
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(Report { scenario: Some(scenario), ..Report::default() });
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        while report.lock().unwrap().failures.len() < max_failures {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let outcome = run(seed, scenario, flaw);
            report.lock().unwrap().add(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut report = report.into_inner().unwrap();
    report.failures.sort_by_key(|outcome| outcome.seed);
    report
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.grants += outcome.grants;
        self.losses += outcome.losses;
        self.refused_writes += outcome.refused_writes;
        self.longest_wait = self.longest_wait.max(outcome.longest_wait);
        for (name, count) in &outcome.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (name, times) in &outcome.activity {
            *self.activity.entry(name).or_default() += times;
        }
        if !outcome.violations.is_empty() {
            self.failures.push(outcome);
        }
    }

    /// How many faults were injected.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} grants, {} leases lost, {} writes refused, {:?} the longest wait after the faults, {} faults:",
            self.runs,
            self.grants,
            self.losses,
            self.refused_writes,
            self.longest_wait,
            self.fault_count()
        )?;
        for (name, count) in &self.faults {
            writeln!(f, "  {count:>6} {name}")?;
        }
        writeln!(f, "activity: {:?}", self.activity)?;
        let scenario = self.scenario.map_or("promised", Scenario::name);
        for Outcome { seed, violations, .. } in &self.failures {
            writeln!(f, "seed {seed} breaks a promise:")?;
            violations.iter().take(10).try_for_each(|violation| writeln!(f, "  {violation}"))?;
            let command = "cargo run --release -p lock-sim --";
            writeln!(f, "  replay: {command} {scenario} {seed}")?;
        }
        if self.failures.is_empty() { write!(f, "no promise was broken") } else { Ok(()) }
    }
}
