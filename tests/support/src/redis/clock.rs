//! Servers with a wall clock of their own.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::RedisServer;

/// The clock of a server: that of the machine and an offset. Keys expire by it, and `TIME` replies with it.
pub struct Clock {
    directory: TempDir,
    offset: File,
}

impl Clock {
    /// A clock that is ahead by this much, or behind.
    pub fn new(offset_seconds: i64) -> Self {
        let directory = TempDir::new().unwrap();
        let source = directory.path().join("clock.c");
        std::fs::write(&source, include_str!("clock.c")).unwrap();
        let library = directory.path().join(LIBRARY);
        let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(library).arg(source).status();
        assert!(compiled.expect("cc is installed, as Rust needs it").success());
        let offset = File::create(directory.path().join(OFFSET)).unwrap();
        let clock = Self { directory, offset };
        clock.set(offset_seconds);
        clock
    }

    /// Steps the clock: it is ahead by this much from now on.
    pub fn set(&self, offset_seconds: i64) {
        self.set_micros(offset_seconds * 1_000_000);
    }

    /// As [`set`](Self::set), with fractions of a second.
    pub fn set_micros(&self, offset: i64) {
        self.offset.write_all_at(&offset.to_ne_bytes(), 0).unwrap();
    }

    /// Lets processes of other users have this clock.
    pub fn let_others_read(&self) {
        fs::set_permissions(self.directory.path(), Permissions::from_mode(0o755)).unwrap();
    }

    /// The variables with which a process has this clock.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        let path = |name| self.directory.path().join(name);
        [("LD_PRELOAD", path(LIBRARY)), ("CLOCK_OFFSET_FILE", path(OFFSET))]
    }
}

const LIBRARY: &str = "clock.so";
const OFFSET: &str = "offset";

impl RedisServer {
    /// Starts a server whose clock is ahead by this much (or behind), and which keeps nothing on disk.
    pub async fn start_with_clock(offset_seconds: i64) -> Self {
        Self::launch(&[], Some(Clock::new(offset_seconds))).await
    }

    /// Steps the clock of a server that was started with one: it is ahead by this much from now on.
    pub fn step_clock(&self, offset_seconds: i64) {
        self.clock.as_ref().expect("the server was started with a clock").set(offset_seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    async fn is_ahead_by(server: &RedisServer, seconds: i64) -> bool {
        let (server, _): (i64, i64) = server.query("TIME").await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        (server - i64::try_from(now).unwrap() - seconds).abs() < 60
    }

    #[tokio::test]
    async fn a_clock_can_be_stepped_and_keys_expire_by_it() {
        let server = RedisServer::start_with_clock(600).await;
        assert!(is_ahead_by(&server, 600).await);
        server.query::<String>("SET key value EX 3000").await;
        server.step_clock(7200);
        assert!(is_ahead_by(&server, 7200).await);
        assert_eq!(server.query::<Option<String>>("GET key").await, None);
        server.step_clock(-600);
        assert!(is_ahead_by(&server, -600).await);
    }
}
