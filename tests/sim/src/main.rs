//! Runs simulations: as many seeds as wanted, or one with its whole history.
//!
//! ```text
//! simulate [promised|clock-jumps|amnesia] FIRST [LAST]
//! ```
//!
//! With one seed, its history is printed; two runs of a seed print the same. With a range, a summary. The exit code is 1
//! if a promise was broken.

use std::process::ExitCode;

use lock_sim::{Scenario, run, run_all};

/// After so many failures there is nothing more to learn from another one.
const MOST_FAILURES: usize = 10;

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
            let report = run_all(*first..last.saturating_add(1), scenario, None, MOST_FAILURES);
            println!("{report}");
            !report.failures.is_empty()
        }
        _ => {
            eprintln!("usage: simulate [promised|clock-jumps|amnesia] FIRST [LAST]");
            return ExitCode::from(2);
        }
    };
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
