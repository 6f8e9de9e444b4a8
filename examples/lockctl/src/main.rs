//! Shows who the masters of a set of locks are, and waits for changes of it. Shows who holds a lock, and takes it from them.

#[macro_use]
mod output;

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

use tokio::runtime::Builder;

use crate::args::Cli;

/// Exit status if the masters are not all well, or a change is not done.
const NOT_DONE: u8 = 1;
/// Exit status if the arguments are invalid. clap uses the same one.
const INVALID: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::of_process();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say!("lockctl: no runtime: {error}");
            return ExitCode::from(NOT_DONE);
        }
    };
    let status = runtime.block_on(run(cli));
    // Not awaited: the lookup of a name may take as long as it likes.
    runtime.shutdown_background();
    status
}

async fn run(cli: Cli) -> ExitCode {
    tokio::select! {
        biased;
        signal = signals::first() => {
            say!("lockctl: stopped; what was done stays done, and the masters need nobody to finish it");
            ExitCode::from(signal)
        }
        done = commands::run(cli) => match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(NOT_DONE),
            Err(error) => {
                say!("lockctl: {error}");
                ExitCode::from(INVALID)
            }
        },
    }
}
