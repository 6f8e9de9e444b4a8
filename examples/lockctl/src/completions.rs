//! The scripts with which shells complete the arguments.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::output::{Printed, print_text};

/// Prints the script of a shell. Returns whether it was printed.
pub(crate) fn print(shell: Shell) -> bool {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "lockctl", &mut script);
    print_text(&String::from_utf8_lossy(&script)) != Printed::No
}
