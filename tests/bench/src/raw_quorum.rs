//! The floor: what one fan-out to a quorum costs without any lock.

use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::BoxError;

/// A plain connection to each master. Sends one small command to all of them at once, and is done as soon as a majority
/// has replied.
#[derive(Clone)]
pub(super) struct RawQuorum {
    connections: Vec<MultiplexedConnection>,
    script: String,
}

/// The least that the script of a lock has to do: the same as the plain command.
const SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";

impl RawQuorum {
    pub(super) async fn connect(masters: &[String]) -> Result<Self, BoxError> {
        // Longer than anything that is measured takes.
        let config = &AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        let connect = async |master: &String| {
            redis::Client::open(master.as_str())?.get_multiplexed_async_connection_with_config(config).await
        };
        let mut connections = try_join_all(masters.iter().map(connect)).await?;
        let mut script = String::new();
        for connection in &mut connections {
            script = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(connection).await?;
        }
        Ok(Self { connections, script })
    }

    /// `SET key value NX PX 10000`.
    pub(super) async fn set(&self, key: &str) -> Result<(), BoxError> {
        let mut command = redis::cmd("SET");
        self.fan_out(command.arg(key).arg("raw").arg("NX").arg("PX").arg(10_000)).await
    }

    /// The same by `EVALSHA`.
    pub(super) async fn script(&self, key: &str) -> Result<(), BoxError> {
        let mut command = redis::cmd("EVALSHA");
        self.fan_out(command.arg(&self.script).arg(1).arg(key).arg("raw").arg(10_000)).await
    }

    async fn fan_out(&self, command: &redis::Cmd) -> Result<(), BoxError> {
        let send = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { command.query_async::<redis::Value>(&mut connection).await }
        };
        let mut replies: FuturesUnordered<_> = self.connections.iter().map(send).collect();
        for _ in 0..=self.connections.len() / 2 {
            replies.next().await.ok_or("no connection")??;
        }
        Ok(())
    }
}
