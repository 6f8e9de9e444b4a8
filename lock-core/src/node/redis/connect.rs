//! Opens connections.

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, PushInfo, PushKind, RedisConnectionInfo,
    RedisResult,
};
use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// How long connecting may take, and how long an inspection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection is silent before the kernel probes it, and the time between two probes.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long written bytes may stay unacknowledged before the kernel gives up the connection.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many writes redis-rs buffers. Its default of 50 is too small to keep a fast connection busy.
const PIPELINE_BUFFER: usize = 2048;

/// A connection, and the future that moves its bytes.
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    /// Must be polled while the connection is used; ends with it. The user of the connection polls it in the same task, because
    /// to switch tasks on the way of a request costs as much as the request.
    pub(super) driver: BoxFuture<'static, ()>,
}

/// Connects to a server. Cancels `gone` when the connection is lost.
pub(super) async fn connect(info: ConnectionInfo, gone: CancellationToken) -> RedisResult<Connected> {
    let settings = info.redis_settings();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => over(tcp(host, *port).await?, settings, gone).await,
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => over(tokio::net::UnixStream::connect(path).await?, settings, gone).await,
        // Never parsed from a URL.
        _ => Err((ErrorKind::InvalidClientConfig, "neither TCP nor a Unix socket").into()),
    }
}

/// Opens a TCP connection.
pub(super) async fn tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    configure(&stream)?;
    Ok(stream)
}

fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}

/// Begins to talk to a server over a stream.
pub(super) async fn over<S>(
    stream: S,
    settings: &RedisConnectionInfo,
    gone: CancellationToken,
) -> RedisResult<Connected>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let on_push = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            gone.cancel();
        }
        Ok::<(), std::convert::Infallible>(())
    };
    // No response timeout: the engine has its own, and a request that redis-rs gave up may still be executed.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_BUFFER)
        .set_push_sender(on_push);
    let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
    Ok(Connected { connection, driver: Box::pin(driver) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_not_held_back_and_a_dead_link_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        configure(&stream).unwrap();
        assert!(stream.nodelay().unwrap() && SockRef::from(&stream).keepalive().unwrap());
    }
}
