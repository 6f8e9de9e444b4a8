//! The program under test, in a process of its own: it can install a recorder of metrics.

use std::{
    io::{BufRead, BufReader},
    ops::Deref,
    process::{Child, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;

use crate::client::Client;

/// `inventory serve`, as users start it. It ends when this is dropped.
pub(crate) struct Program {
    client: Client,
    process: Child,
    _stdout: BufReader<ChildStdout>,
    _directory: TempDir,
}

impl Program {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_inventory"))
            .args(["serve", "--listen", "127.0.0.1:0", "--database"])
            .arg(directory.path().join("shop.sqlite"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Self { client: Client { address }, process, _stdout: stdout, _directory: directory }
    }
}

impl Deref for Program {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
