//! Opens connections.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, ProtocolVersion, RedisConnectionInfo,
    RedisError, RedisResult,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::address::Server;
use super::classify::{connect_error, login_error};
use super::query::read;
use crate::node::tcp::{self, Io};
use crate::node::{Credentials, NodeError, Refusal};

/// How long connecting may take, and how long an inspection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How many writes redis-rs buffers. Its default of 50 is too small to keep a fast connection busy.
const PIPELINE_BUFFER: usize = 2048;

/// The types of the records with which a server that speaks TLS answers.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
/// How long a server that hung up is given to answer in TLS.
const TLS_TIMEOUT: Duration = Duration::from_millis(250);
/// The shortest beginning of a TLS handshake: a record (type, version, length) with a `ClientHello` (type, length, version, 32 random
/// bytes, no session, one cipher suite, no compression). What a server answers, it answers in TLS, be it a refusal.
const CLIENT_HELLO: [&[u8]; 3] = [&[TLS_HANDSHAKE, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3], &[7; 32], &[0, 0, 2, 0, 47, 1, 0]];

/// A connection, and the future that moves its bytes.
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    /// Must be polled while the connection is used; ends with it. The user of the connection polls it in the same task, because
    /// to switch tasks on the way of a request costs as much as the request.
    pub(super) driver: BoxFuture<'static, ()>,
}

impl Connected {
    /// Sends a command and waits for its answer, before anybody else uses the connection.
    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, NodeError> {
        let answer = tokio::select! {
            biased;
            answer = self.connection.send_packed_command(command) => answer.map_err(|error| connect_error(&error))?,
            () = &mut self.driver => return Err(NodeError::Unreachable { reason: "connection lost".into() }),
        };
        read(answer)
    }
}

impl Server {
    /// Connects by a configuration that is for one connection, and logs in, as the URL says or with these credentials: in RESP3, if the
    /// server speaks that.
    pub(super) async fn connect(
        &self,
        credentials: Option<&Credentials>,
        config: AsyncConnectionConfig,
    ) -> Result<Connected, NodeError> {
        let mut login = self.info.redis_settings().clone();
        if let Some(Credentials { user, password }) = credentials {
            login = login.set_username(user).set_password(password);
        }
        let connected = match over(self.dial().await?, &login, config).await {
            Err(error) if lacks_resp3(&error) => {
                // Messages do not arrive then.
                over(self.dial().await?, &login.set_protocol(ProtocolVersion::RESP2), settings()).await
            }
            connected => connected,
        };
        match connected {
            Err(error) if error.is_connection_dropped() && self.expects_tls().await => {
                let detail = "the server expects TLS at this port; write rediss:// for redis://".into();
                Err(Refusal::Tls { detail }.into())
            }
            connected => connected.map_err(|error| login_error(&error)),
        }
    }

    /// Opens a stream. Nothing is said on it yet, but what makes it secure.
    async fn dial(&self) -> Result<Box<dyn Io>, NodeError> {
        let failed = |error: io::Error| connect_error(&error.into());
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                if let Some(network) = &self.network {
                    return network.dial(host, *port).await.map_err(failed);
                }
                let Some(tls) = &self.tls else {
                    return Ok(Box::new(tcp::connect(host, *port).await.map_err(failed)?));
                };
                tls.connector()?;
                tls.shake_hands(tcp::connect(host, *port).await.map_err(failed)?).await
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await.map_err(failed)?)),
            _ => Err(NodeError::Unreachable { reason: "neither TCP nor a Unix socket".into() }),
        }
    }

    /// Whether the server, which hung up during a login without TLS, speaks TLS.
    async fn expects_tls(&self) -> bool {
        if self.tls.is_some() || self.network.is_some() {
            return false;
        }
        let ConnectionAddr::Tcp(host, port) = self.info.addr() else { return false };
        let asking = async {
            let mut stream = tcp::connect(host, *port).await?;
            stream.write_all(&CLIENT_HELLO.concat()).await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            io::Result::Ok(matches!(answer, [TLS_ALERT | TLS_HANDSHAKE, 3]))
        };
        timeout(TLS_TIMEOUT, asking).await.is_ok_and(|answer| answer.unwrap_or(false))
    }
}

/// The configuration of a connection, but for who receives its messages.
pub(super) fn settings() -> AsyncConnectionConfig {
    // No response timeout: the engine has its own, and a request that redis-rs gave up may still be executed.
    AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(PIPELINE_BUFFER)
}

/// Whether a login failed because the server, or a proxy in front of it, does not speak RESP3.
fn lacks_resp3(error: &RedisError) -> bool {
    let is_unknown = |detail: &str| detail.starts_with("unknown command") && detail.to_lowercase().contains("hello");
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error.detail().is_some_and(is_unknown)
}

/// Begins to talk to a server over a stream.
async fn over(
    stream: Box<dyn Io>,
    login: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> RedisResult<Connected> {
    let (connection, driver) = MultiplexedConnection::new_with_config(login, stream, config).await?;
    Ok(Connected { connection, driver: Box::pin(driver) })
}
