//! The `waiter` processes, as the tests control them, and the queues that they wait in.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use lock_support::{RedisCluster, RedisServer, eventually_async};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// A process that waits for a lock when it is asked to. Killed when it is dropped.
pub(crate) struct Waiter {
    child: Child,
    granted: Arc<AtomicUsize>,
}

impl Waiter {
    /// Starts it, and waits until it is connected.
    pub(crate) async fn start(resource: &str, masters: &[String]) -> Self {
        Self::start_with(resource, masters, &[]).await
    }

    /// Starts it with these variables in its environment, and waits until it is connected.
    pub(crate) async fn start_with(resource: &str, masters: &[String], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waiter"));
        command.arg(resource).args(masters).envs(environment.iter().copied()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        let granted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&granted);
        tokio::spawn(async move {
            while let Ok(Some(_)) = lines.next_line().await {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { child, granted }
    }

    /// Asks it to take the lock this many times.
    pub(crate) async fn ask(&mut self, times: usize) {
        self.child.stdin.as_mut().unwrap().write_all("\n".repeat(times).as_bytes()).await.unwrap();
    }

    /// How many times it has had the lock.
    pub(crate) fn granted(&self) -> usize {
        self.granted.load(Ordering::Relaxed)
    }

    /// `SIGSTOP`: it hangs, and its connections stay open.
    pub(crate) fn freeze(&self) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
    }

    /// `SIGKILL`: its connections are closed. Returns what it has logged.
    pub(crate) async fn kill(mut self) -> String {
        self.child.kill().await.unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        log
    }
}

/// Waits until every server has this many waiters in its only queue.
pub(crate) async fn eventually_queued(cluster: &RedisCluster, waiters: usize) {
    eventually_async("every server has the waiters in its queue", async || {
        join_all(cluster.servers.iter().map(queued)).await.iter().all(|queued| *queued == waiters)
    })
    .await;
}

async fn queued(server: &RedisServer) -> usize {
    let [queue] = &server.keys("*:queue").await[..] else { return 0 };
    server.query(&format!("ZCARD {queue}")).await
}
