//! Servers that write their data to disk, and copies of it.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::RedisServer;
use crate::wait::eventually_async;

/// A copy of what a server had on disk.
pub struct Backup(TempDir);

impl RedisServer {
    /// Starts a server with an append-only file, and this for `appendfsync`.
    pub async fn start_on_disk(appendfsync: &str) -> Self {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", appendfsync]).await
    }

    /// Writes a snapshot, or waits until the append-only file is written, and copies what the server has on disk.
    pub async fn back_up(&self) -> Backup {
        if self.persistence().await.contains("aof_enabled:0\r\n") {
            self.query::<String>("SAVE").await;
        } else {
            self.until_flushed().await;
        }
        let backup = Backup(TempDir::new().unwrap());
        copy(self.directory.path(), backup.0.path());
        backup
    }

    /// Waits until the append-only file has everything. With `everysec`, Redis replies before it writes while the disk is busy.
    async fn until_flushed(&self) {
        eventually_async("all is written", async || self.persistence().await.contains("aof_buffer_length:0\r\n")).await;
    }

    /// Waits until an append-only file is complete that was begun again, as for the data of another server.
    pub async fn until_written(&self) {
        let is_over = |info: &str| {
            ["scheduled", "in_progress"].iter().all(|is| info.contains(&format!("aof_rewrite_{is}:0\r\n")))
        };
        eventually_async("the file is complete", async || is_over(&self.persistence().await)).await;
    }

    async fn persistence(&self) -> String {
        self.query("INFO persistence").await
    }

    /// Kills the process and starts a new one at the same address, with the data of a backup, and with these additional arguments.
    pub async fn restore(&mut self, backup: &Backup, arguments: &[&str]) {
        self.kill();
        self.directory = TempDir::new().unwrap();
        copy(backup.0.path(), self.directory.path());
        self.restart_with(arguments).await;
    }

    /// Kills the process and starts a new one at the same address, with what it has on disk, and with these additional arguments.
    pub async fn restart_with(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self.restart().await;
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_without_an_append_only_file_is_restored_from_a_snapshot() {
        let mut server = RedisServer::start().await;
        server.query::<String>("SET before 1").await;
        let backup = server.back_up().await;
        server.query::<String>("SET after 1").await;
        server.restore(&backup, &[]).await;
        assert_eq!(server.keys("*").await, ["before"]);
    }

    #[tokio::test]
    async fn a_restored_server_has_what_it_had_when_it_was_backed_up() {
        let mut server = RedisServer::start_on_disk("everysec").await;
        server.query::<String>("SET before 1").await;
        let backup = server.back_up().await;
        server.query::<String>("SET after 1").await;
        server.until_flushed().await;
        server.restart_with(&[]).await;
        assert_eq!(server.keys("*").await, ["after", "before"]);
        server.restore(&backup, &["--appendfsync", "always"]).await;
        assert_eq!(server.keys("*").await, ["before"]);
        let setting: Vec<String> = server.query("CONFIG GET appendfsync").await;
        assert_eq!(setting, ["appendfsync", "always"]);
    }
}
