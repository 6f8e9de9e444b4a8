//! Runs the program.

use std::process::Stdio;

use lock_support::{RedisServer, eventually_async};
use tokio::process::Command;

/// How it ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What it printed, if all was well.
    pub(crate) fn expect_done(self) -> String {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.out
    }

    /// What it printed on both outputs, if not all was well.
    pub(crate) fn expect_not_done(self) -> String {
        assert_eq!(self.status, Some(1), "{self:?}");
        self.out + &self.err
    }
}

/// The program with a list of masters, and with arguments that are separated by spaces.
pub(crate) fn command(urls: &[String], arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
    command.args(arguments.split(' ')).env("LOCK_URLS", urls.join(",")).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs the program.
pub(crate) async fn lockctl(urls: &[String], arguments: &str) -> Ended {
    let output = command(urls, arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Waits with `lockctl replace` until all masters of a list vote. Returns the members then.
pub(crate) async fn replace(urls: &[String]) -> String {
    lockctl(urls, "replace --timeout 30s").await.expect_done()
}

pub(crate) fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// The generation of the set, of what the program printed.
pub(crate) fn generation(members: &str) -> u64 {
    let (_, rest) = members.split_once("generation ").unwrap_or_else(|| panic!("{members}"));
    rest.split(',').next().unwrap().parse().unwrap()
}

/// Waits until the set has a later generation: the service has noticed what happened to a master.
pub(crate) async fn changes_after(urls: &[String], before: u64) {
    eventually_async("the members change", async || {
        let members = lockctl(urls, "members").await;
        members.out.starts_with("set ") && generation(&members.out) > before
    })
    .await;
}
