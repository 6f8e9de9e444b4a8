//! Child processes that play a role in a part.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::contender::Contender;
use super::{BoxError, Plan};
use lock_support::RedisCluster;

/// How long a process may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that plays a [`Role`](super::Role). Killed when it is dropped.
pub(super) struct ChildProcess {
    child: Child,
    stdin: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

/// Its command line.
pub(super) struct ChildArgs<'a> {
    pub(super) role: &'a str,
    pub(super) contender: Contender,
    pub(super) masters: &'a [String],
    pub(super) resource: &'a str,
    pub(super) more: Vec<String>,
}

impl ChildProcess {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(plan: &Plan, args: &ChildArgs<'_>) -> Result<Self, BoxError> {
        let contender = clap::ValueEnum::to_possible_value(&args.contender).ok_or("a contender without a name")?;
        let mut command = Command::new(&plan.program);
        command.arg(args.role).args(["--contender", contender.get_name(), "--resource", args.resource]);
        command.args(args.masters.iter().flat_map(|master| ["--master", master]));
        command.args(&args.more).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let replies = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        let mut process = Self { child, stdin, replies };
        process.reply::<String>().await?;
        Ok(process)
    }

    /// Makes it begin.
    pub(super) async fn begin(&mut self) -> Result<(), BoxError> {
        Ok(self.stdin.write_all(b"begin\n").await?)
    }

    /// Its next line, as JSON.
    pub(super) async fn reply<T: DeserializeOwned>(&mut self) -> Result<T, BoxError> {
        let line = timeout(REPLY_TIMEOUT, self.replies.next_line())
            .await
            .map_err(|_| "timed out waiting for a child process")??;
        Ok(serde_json::from_str(&line.ok_or("a child process ended early")?)?)
    }

    /// Kills it, and waits until it has ended.
    pub(super) async fn end(mut self) -> Result<(), BoxError> {
        Ok(self.child.kill().await?)
    }
}

/// The URLs of all masters.
pub(super) fn urls(cluster: &RedisCluster) -> Vec<String> {
    cluster.servers.iter().map(lock_support::RedisServer::url).collect()
}
