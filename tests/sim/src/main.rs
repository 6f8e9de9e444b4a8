//! Runs the simulation for a range of seeds, or for one seed with its whole history.
//!
//! ```text
//! simulate [promised|clock-jumps|amnesia|elsewhere|clusters] FIRST [LAST]
//! ```
//!
//! For one seed, prints its history, which is the same in every run. For a range, prints a summary. The exit code is 1 if a
//! promise was broken, and 2 if the arguments are invalid.

use std::process::ExitCode;

use lock_sim::{Scenario, run, run_all};

/// The number of failed runs after which a range is abandoned.
const MAX_FAILURES: usize = 10;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &String| Scenario::ALL.into_iter().find(|scenario| scenario.name() == name);
    let scenario = arguments.first().and_then(named);
    if scenario.is_some() {
        arguments.remove(0);
    }
    let seeds: Option<Vec<u64>> = arguments.iter().map(|seed| seed.parse().ok()).collect();
    let scenario = scenario.unwrap_or(Scenario::Promised);
    let broken = match seeds.as_deref() {
        Some([seed]) => {
            let outcome = run(*seed, scenario, None);
            print!("{}", outcome.history);
            outcome.violations.iter().for_each(|violation| println!("BROKEN: {violation}"));
            !outcome.violations.is_empty()
        }
        Some([first, last]) if first <= last => {
            let report = run_all(*first..last.saturating_add(1), scenario, None, MAX_FAILURES);
            println!("{report}");
            !report.failures.is_empty()
        }
        _ => {
            eprintln!("usage: simulate [promised|clock-jumps|amnesia|elsewhere|clusters] FIRST [LAST]");
            return ExitCode::from(2);
        }
    };
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
