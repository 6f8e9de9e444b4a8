//! What the servers count.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;

use super::Failure;
use lock_support::{RedisCluster, RedisServer, executed};

/// What a client sends, and no script calls. Servers count the commands inside of scripts as well, under the same names as
/// if clients had sent them; of those that locks use, `SET` is told apart by who sends it.
const FROM_CLIENTS: [&str; 20] = [
    "auth",
    "blpop",
    "client",
    "config",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "hello",
    "info",
    "lpop",
    "ping",
    "psubscribe",
    "script",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
];

/// Connections by which the servers are asked for their counts.
pub(super) struct Meter(Vec<MultiplexedConnection>);

/// What all masters have executed since they started.
pub(super) struct Counts(Vec<HashMap<String, u64>>);

/// What all masters have executed in some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Commands {
    /// What clients sent.
    pub(super) sent: u64,
    /// That, and what scripts called.
    pub(super) executed: u64,
    /// What clients sent to the busiest master.
    pub(super) busiest: u64,
}

impl Meter {
    pub(super) async fn connect(cluster: &RedisCluster) -> Result<Self, Failure> {
        Ok(Self(try_join_all(cluster.servers.iter().map(RedisServer::connect)).await?))
    }

    pub(super) async fn read(&self) -> Result<Counts, Failure> {
        let ask = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { executed(&mut connection).await }
        };
        Ok(Counts(try_join_all(self.0.iter().map(ask)).await?))
    }

    /// What happened since. Who sends a plain `SET` is the peer.
    pub(super) async fn since(&self, before: &Counts, sends_set: bool) -> Result<Commands, Failure> {
        let now = self.read().await?;
        let mut all = Commands::default();
        for (now, before) in now.0.iter().zip(&before.0) {
            let grown = now.iter().map(|(name, calls)| {
                // The second question counts the first.
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
