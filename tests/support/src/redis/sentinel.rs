//! Processes of Redis Sentinel.

use std::process::{Child, Command, Stdio};

use redis::FromRedisValue;
use tempfile::TempDir;

use super::{RedisServer, free_port};
use crate::authority::Authority;
use crate::wait::eventually_async;

/// A real `redis-sentinel` process that watches over one master, and needs nobody's consent to replace it. It is killed and reaped
/// when this is dropped.
pub struct Sentinel {
    port: u16,
    tls_port: Option<u16>,
    _directory: TempDir,
    child: Child,
}

impl Sentinel {
    /// Starts a sentinel that knows the master under this name, and waits until it has found this many replicas.
    pub async fn start(name: &str, master: &RedisServer, replicas: usize) -> Self {
        Self::start_with(name, master.port(), replicas, None).await
    }

    /// Starts a sentinel that speaks TLS with the master, and with those who ask it; at another port without.
    pub async fn start_over_tls(authority: &Authority, name: &str, master: u16) -> Self {
        Self::start_with(name, master, 0, Some(authority)).await
    }

    async fn start_with(name: &str, master: u16, replicas: usize, authority: Option<&Authority>) -> Self {
        let (directory, port, tls_port) = (TempDir::new().unwrap(), free_port(), authority.map(|_| free_port()));
        let secured = authority.zip(tls_port).map(|(authority, port)| {
            let ([certificate, key], root) = (authority.issue("127.0.0.1"), authority.root_file());
            format!(
                "tls-port {port}\ntls-cert-file {certificate}\ntls-key-file {key}\ntls-ca-cert-file {root}\ntls-replication yes\n\
                 tls-auth-clients yes\n"
            )
        });
        let configuration = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n{}sentinel monitor {name} 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds {name} 300\nsentinel failover-timeout {name} 3000\n",
            directory.path().display(),
            secured.unwrap_or_default(),
        );
        let file = directory.path().join("sentinel.conf");
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new("redis-sentinel");
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("redis-sentinel is installed");
        let sentinel = Self { port, tls_port, _directory: directory, child };
        eventually_async("the sentinel has found the replicas", async || {
            let found: Result<Vec<redis::Value>, _> = sentinel.query(&["SENTINEL", "REPLICAS", name]).await;
            found.is_ok_and(|found| found.len() == replicas)
        })
        .await;
        sentinel
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it speaks TLS, if it does.
    #[must_use]
    pub fn url(&self) -> String {
        match self.tls_port {
            Some(port) => format!("rediss://127.0.0.1:{port}"),
            None => format!("redis://{}", self.address()),
        }
    }

    async fn query<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://{}", self.address()))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
