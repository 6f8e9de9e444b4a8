//! A pooler in front of a server.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::PostgresServer;
use super::programs::{give_away, psql, unprivileged};
use crate::redis::free_port;
use crate::wait::eventually_async;

/// A real `PgBouncer` on a loopback port, in front of a server. It is killed and reaped when this is dropped.
pub struct PgBouncer {
    port: u16,
    directory: TempDir,
    child: Child,
}

impl PgBouncer {
    /// Starts a pooler in front of a server, with lines of its configuration, such as `pool_mode = transaction`.
    pub async fn start(server: &PostgresServer, lines: &[&str]) -> Self {
        for _ in 0..50 {
            let (directory, port) = (TempDir::new().unwrap(), free_port());
            let child = spawn(directory.path(), port, server.port(), lines);
            let mut pooler = Self { port, directory, child };
            if pooler.comes_up().await {
                return pooler;
            }
            // Another process took the port.
        }
        panic!("pgbouncer does not start");
    }

    /// The URL of the database `postgres` through the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs SQL through the pooler on a new connection, and returns its rows: one a line, with `|` between the columns.
    pub async fn query(&self, sql: &str) -> String {
        psql(&self.url(), sql).await
    }

    async fn comes_up(&mut self) -> bool {
        let log = self.directory.path().join("log");
        let mut ended = false;
        eventually_async("pgbouncer accepts connections", async || {
            ended = self.child.try_wait().unwrap().is_some();
            ended || fs::read_to_string(&log).unwrap_or_default().contains("process up")
        })
        .await;
        !ended
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn spawn(directory: &Path, port: u16, server: u16, lines: &[&str]) -> Child {
    // With `auth_type = any`, each database has the user as whom the pooler logs in.
    let configuration = format!(
        "[databases]\npostgres = host=127.0.0.1 port={server} user=postgres\n[pgbouncer]\nauth_type = any\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n{}\n",
        lines.join("\n")
    );
    let file = directory.join("pgbouncer.ini");
    fs::write(&file, configuration).unwrap();
    give_away(directory);
    give_away(&file);
    let log = File::create(directory.join("log")).unwrap();
    let mut command: Command = unprivileged("pgbouncer");
    command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("PgBouncer is installed")
}
