//! Processes that do something for a part.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::contender::Contender;
use super::{Failure, Plan};
use lock_support::RedisCluster;

/// How long a process may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process in a [`Role`](super::Role). Killed when it is dropped.
pub(super) struct Hand {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What it is told on its command line.
pub(super) struct Errand<'a> {
    pub(super) role: &'a str,
    pub(super) contender: Contender,
    pub(super) masters: &'a [String],
    pub(super) key: &'a str,
    pub(super) more: Vec<String>,
}

impl Hand {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(plan: &Plan, errand: &Errand<'_>) -> Result<Self, Failure> {
        let contender = clap::ValueEnum::to_possible_value(&errand.contender).ok_or("a contender without a name")?;
        let mut command = Command::new(&plan.program);
        command.arg(errand.role).args(["--contender", contender.get_name(), "--key", errand.key]);
        command.args(errand.masters.iter().flat_map(|master| ["--master", master]));
        command.args(&errand.more).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        let mut hand = Self { child, orders, answers };
        hand.answer::<String>().await?;
        Ok(hand)
    }

    /// Tells it to begin.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        Ok(self.orders.write_all(b"begin\n").await?)
    }

    /// What it says next.
    pub(super) async fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let line = timeout(PATIENCE, self.answers.next_line()).await.map_err(|_| "a process says nothing")??;
        Ok(serde_json::from_str(&line.ok_or("a process ended early")?)?)
    }

    /// Ends it, and waits until it is gone.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }
}

/// The addresses of all masters.
pub(super) fn urls(cluster: &RedisCluster) -> Vec<String> {
    cluster.servers.iter().map(lock_support::RedisServer::url).collect()
}
