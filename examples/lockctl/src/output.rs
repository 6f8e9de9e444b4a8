//! What the program writes. A reader that has gone away is none of its business; any other result that cannot be written is.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::args::SetArgs;

/// Says something on the standard error, with the arguments of `format!`.
macro_rules! say {
    ($($arguments:tt)*) => { $crate::output::to_stderr(format_args!($($arguments)*)) };
}

/// Behind `say!`. `eprintln!` panics if nobody reads.
pub(crate) fn to_stderr(text: fmt::Arguments<'_>) {
    _ = writeln!(io::stderr(), "{text}");
}

/// Prints a result on the standard output, for people or as JSON. If that cannot be written, it goes to the standard error instead: a token
/// that was drawn is nowhere else. Returns whether it was printed.
pub(crate) fn print(
    set: &SetArgs,
    result: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<bool, Box<dyn Error>> {
    let text = if set.json { serde_json::to_string_pretty(result)? + "\n" } else { text() };
    Ok(print_text(&text) != Printed::No)
}

/// Whether a text was printed.
#[derive(PartialEq)]
pub(crate) enum Printed {
    Yes,
    /// The reader has gone away.
    Unread,
    /// It could not be written, and went to the standard error.
    No,
}

/// As [`print()`], for what is text already.
pub(crate) fn print_text(text: &str) -> Printed {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Printed::Yes,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Printed::Unread,
        Err(error) => {
            say!("lockctl: the standard output: {error}\n{}", text.trim_end());
            Printed::No
        }
    }
}
