//! Goes through all states of the larger models, which takes minutes.
//!
//! ```text
//! model [attempts|forgetting|renewal|queue|all]
//! ```
//!
//! Progress is told on stderr. The exit code is 1 if a promise was broken; the run that leads there is printed.

use std::io;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use lock_model::{Checked, QueueSetting, Setting, report};

/// Goes through all states of a model of the protocol and checks the promises in each. Exits with 1 if one was broken.
#[derive(Parser)]
struct Arguments {
    /// Which models.
    #[arg(default_value = "all")]
    which: Which,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Which {
    /// Two and three attempts, without time: keys end at any step; and with other locks that count on the same fences.
    Attempts,
    /// Two attempts in time, while nodes forget.
    Forgetting,
    /// Leases that are renewed, while nodes forget.
    Renewal,
    /// Processes that wait in the queues of the nodes.
    Queue,
    /// All of these, one after the other.
    All,
}

fn main() -> io::Result<ExitCode> {
    let which = Arguments::parse().which;
    let wanted = |of: Which| which == Which::All || which == of;
    let mut models = Vec::new();
    let locks = [
        (Which::Attempts, Setting::long_attempts()),
        (Which::Forgetting, Setting::long_forgetting()),
        (Which::Renewal, Setting::long_renewal()),
    ];
    for (_, settings) in locks.into_iter().filter(|(of, _)| wanted(*of)) {
        models.extend(settings.into_iter().map(Checked::Locks));
    }
    if wanted(Which::Queue) {
        models.extend(QueueSetting::long().into_iter().map(Checked::Queue));
    }
    let all_hold = report(models, &mut io::stdout(), |progress| eprintln!("{progress}"))?;
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
