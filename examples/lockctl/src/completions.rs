//! The scripts with which shells complete the arguments.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::args::Cli;

/// Prints the script of a shell on the standard output. A reader that has gone away is none of our business.
pub(crate) fn print(shell: Shell) {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "lockctl", &mut script);
    _ = io::stdout().write_all(&script);
}
