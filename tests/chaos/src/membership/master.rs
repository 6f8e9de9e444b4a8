//! A master: a redis-server with an append-only file and a clock of its own.

use lock_support::{Backup, Clock, RedisServer, eventually_async};

/// How often a server writes its append-only file to the disk.
pub(super) const EVERY_SECOND: [&str; 2] = ["--appendfsync", "everysec"];
pub(super) const ALWAYS: [&str; 2] = ["--appendfsync", "always"];

/// A running or stopped server. Killed and reaped when it is dropped.
pub(super) struct Master {
    pub(super) server: RedisServer,
    /// The first backup that was taken of it.
    pub(super) old_backup: Option<Backup>,
}

impl Master {
    /// A server without data on a port of its own.
    pub(super) async fn blank() -> Self {
        // Backups are copies of files that only grow.
        let mut arguments = vec!["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
        arguments.extend(["--repl-diskless-sync-delay", "0"].iter().chain(&EVERY_SECOND));
        let server = RedisServer::launch(&arguments, Some(Clock::new(0))).await;
        // With its first replica, a master gets another id of its data, and votes only when services have inspected it.
        drop(server.start_copy().await);
        Self { server, old_backup: None }
    }

    /// An asynchronous standby of this master that has its data.
    pub(super) async fn standby(&self) -> Self {
        let standby = Self::blank().await;
        standby.server.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", self.server.port())).await;
        eventually_async("the standby has the data", async || standby.server.is_in_sync().await).await;
        standby
    }
}
