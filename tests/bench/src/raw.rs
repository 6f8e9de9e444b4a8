//! What a round costs without any lock: the floor.

use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::aio::MultiplexedConnection;

use super::Failure;
use lock_support::{RedisCluster, RedisServer};

/// A connection to each master, used by hand: one small command to all of them at once, done as soon as a majority answered.
#[derive(Clone)]
pub(super) struct RawQuorum {
    connections: Vec<MultiplexedConnection>,
    script: String,
}

/// What a lock would have to do at the least: the same as the plain command, and no more.
const SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";

impl RawQuorum {
    pub(super) async fn connect(cluster: &RedisCluster) -> Result<Self, Failure> {
        let mut connections = try_join_all(cluster.servers.iter().map(RedisServer::connect)).await?;
        let mut script = String::new();
        for connection in &mut connections {
            script = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(connection).await?;
        }
        Ok(Self { connections, script })
    }

    /// `SET key value NX PX 10000`.
    pub(super) async fn set(&self, key: &str) -> Result<(), Failure> {
        let mut command = redis::cmd("SET");
        self.fan_out(command.arg(key).arg("raw").arg("NX").arg("PX").arg(10_000)).await
    }

    /// The same by `EVALSHA`.
    pub(super) async fn script(&self, key: &str) -> Result<(), Failure> {
        let mut command = redis::cmd("EVALSHA");
        self.fan_out(command.arg(&self.script).arg(1).arg(key).arg("raw").arg(10_000)).await
    }

    async fn fan_out(&self, command: &redis::Cmd) -> Result<(), Failure> {
        let ask = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { command.query_async::<redis::Value>(&mut connection).await }
        };
        let mut answers: FuturesUnordered<_> = self.connections.iter().map(ask).collect();
        for _ in 0..=self.connections.len() / 2 {
            answers.next().await.ok_or("no connection")??;
        }
        Ok(())
    }
}
