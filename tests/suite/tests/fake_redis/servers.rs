//! The two servers that are compared.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_fake_redis::{FakeRedis, Flaw, NodeClock};
use lock_support::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisResult, Value};
use tokio::io::DuplexStream;
use tokio::net::TcpStream;

use super::raw::RawPair;

/// Both servers.
pub(crate) struct Servers {
    real: RedisServer,
    pub(crate) fake: FakeRedis,
    since: Instant,
}

/// Both servers, each behind a connection of redis-rs.
pub(crate) struct Pair {
    real: MultiplexedConnection,
    fake: MultiplexedConnection,
}

impl Servers {
    pub(crate) async fn start(flaw: Option<Flaw>) -> Self {
        // Both clocks show the same time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let offset = i64::try_from(now.as_micros()).unwrap() - NodeClock::default().micros(Duration::ZERO);
        let fake = FakeRedis::new("fake", NodeClock { offset, gain: 0 }, false, flaw);
        Self { real: RedisServer::start().await, fake, since: Instant::now() }
    }

    pub(crate) async fn connect(&self) -> RedisResult<Pair> {
        let config = || AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        let real = over(TcpStream::connect(self.real.address()).await?, config()).await?;
        Ok(Pair { real, fake: over(self.connect_to_fake(), config()).await? })
    }

    /// A connection to each server, without redis-rs.
    pub(crate) async fn connect_raw(&self) -> RawPair {
        let real = TcpStream::connect(self.real.address()).await.unwrap();
        RawPair::new(real, self.connect_to_fake())
    }

    fn connect_to_fake(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (fake, since) = (self.fake.clone(), self.since);
        tokio::spawn(async move { fake.serve(far, || since.elapsed()).await });
        near
    }
}

impl Pair {
    /// Both replies to a command.
    pub(crate) async fn ask(&mut self, words: &[String]) -> (RedisResult<Value>, RedisResult<Value>) {
        let mut command = Cmd::new();
        command.arg(words);
        (command.query_async(&mut self.real).await, command.query_async(&mut self.fake).await)
    }
}

pub(crate) async fn over<S>(stream: S, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}
