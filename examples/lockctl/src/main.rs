//! Shows who the masters of a set of locks are, and waits for changes of it. Shows who holds a lock, and takes it from them.

mod args;
mod commands;
mod completions;
mod locks;
mod report;
mod signals;
mod table;
#[cfg(feature = "tls")]
mod tls;
mod watch;

use std::process::ExitCode;

use crate::args::Cli;

/// Exit status if the masters are not all well, or a change is not done.
const NOT_DONE: u8 = 1;
/// Exit status if the arguments are invalid. clap uses the same one.
const INVALID: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::of_process();
    tokio::select! {
        biased;
        signal = signals::first() => {
            eprintln!("lockctl: stopped; what was done stays done, and the masters need nobody to finish it");
            ExitCode::from(signal)
        }
        done = commands::run(cli) => match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(NOT_DONE),
            Err(error) => {
                eprintln!("lockctl: {error}");
                ExitCode::from(INVALID)
            }
        },
    }
}
