//! The two servers that are compared.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_sim::redis::{FakeRedis, Flaw, NodeClock};
use lock_support::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisResult, Value};
use tokio::io::DuplexStream;
use tokio::net::TcpStream;

use super::commands::words;
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
        let real = over(TcpStream::connect(self.real.address()).await?).await?;
        Ok(Pair { real, fake: over(self.connect_to_fake()).await? })
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

    /// How many wake-ups the simulated server sent: it sends one with each reservation.
    pub(crate) fn wakeups(&self) -> u64 {
        self.fake.done().get("wake-up sent").copied().unwrap_or_default()
    }
}

impl Pair {
    /// Both replies to a command.
    pub(crate) async fn ask(&mut self, words: &[String]) -> (RedisResult<Value>, RedisResult<Value>) {
        let mut command = Cmd::new();
        command.arg(words);
        (command.query_async(&mut self.real).await, command.query_async(&mut self.fake).await)
    }

    /// Waits for a wake-up as the engine does, without a timeout. Both replies, once both have arrived.
    pub(crate) fn listen(&self, list: &str) -> impl Future<Output = [RedisResult<Vec<Value>>; 2]> + Send + use<> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("BLPOP").arg(list).arg(0);
        pipeline.cmd("LPOP").arg(list).arg(64);
        let (mut real, mut fake) = (self.real.clone(), self.fake.clone());
        async move {
            let answers =
                tokio::join!(real.send_packed_commands(&pipeline, 0, 2), fake.send_packed_commands(&pipeline, 0, 2));
            answers.into()
        }
    }

    /// Waits until this number of connections of each server is blocked.
    pub(crate) async fn until_blocked(&mut self, count: usize) {
        let line = format!("blocked_clients:{count}\r");
        let blocked = |info: RedisResult<Value>| {
            let info: String = redis::from_redis_value(info.unwrap()).unwrap();
            info.contains(&line)
        };
        loop {
            let (real, fake) = self.ask(&words(&["INFO", "clients"])).await;
            if blocked(real) && blocked(fake) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub(crate) async fn over<S>(stream: S) -> RedisResult<MultiplexedConnection>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}
