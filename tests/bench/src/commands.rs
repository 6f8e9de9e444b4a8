//! Counts the commands that the servers execute.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;

use super::BoxError;
use lock_support::{RedisCluster, RedisServer, executed};

/// Commands that clients send and no script calls. Servers count the commands inside of scripts as well, under the same
/// names. Of the commands that locks use, only `SET` is ambiguous: whether it counts depends on the contender.
const FROM_CLIENTS: [&str; 18] = [
    "auth",
    "client",
    "config",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "hello",
    "info",
    "ping",
    "psubscribe",
    "script",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
];

/// Connections for reading the counts.
pub(super) struct Meter(Vec<MultiplexedConnection>);

/// How often each master executed each command since it started.
pub(super) struct Counts(Vec<HashMap<String, u64>>);

/// What all masters executed in a span of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Commands {
    /// Commands that clients sent.
    pub(super) sent: u64,
    /// Commands that clients sent or scripts called.
    pub(super) executed: u64,
    /// Commands that clients sent to the busiest master.
    pub(super) busiest: u64,
}

impl Meter {
    pub(super) async fn connect(cluster: &RedisCluster) -> Result<Self, BoxError> {
        Ok(Self(try_join_all(cluster.servers.iter().map(RedisServer::connect)).await?))
    }

    pub(super) async fn read(&self) -> Result<Counts, BoxError> {
        let query = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { executed(&mut connection).await }
        };
        Ok(Counts(try_join_all(self.0.iter().map(query)).await?))
    }

    /// What was executed since `before`. `sends_set`: whether the contender sends a plain `SET`, as the peer does.
    pub(super) async fn since(&self, before: &Counts, sends_set: bool) -> Result<Commands, BoxError> {
        let now = self.read().await?;
        let mut all = Commands::default();
        for (now, before) in now.0.iter().zip(&before.0) {
            let grown = now.iter().map(|(name, calls)| {
                // The second `INFO` counts the first one.
                let known = before.get(name).copied().unwrap_or_default() + u64::from(name == "info");
                (name, calls.saturating_sub(known))
            });
            let (mut sent, mut executed) = (0, 0);
            for (name, calls) in grown {
                let command = name.split('|').next().unwrap_or_default();
                executed += calls;
                sent += if FROM_CLIENTS.contains(&command) || (sends_set && command == "set") { calls } else { 0 };
            }
            all = Commands { sent: all.sent + sent, executed: all.executed + executed, busiest: all.busiest.max(sent) };
        }
        Ok(all)
    }
}
