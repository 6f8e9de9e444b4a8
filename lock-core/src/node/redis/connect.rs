//! Connecting to a server.

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

/// How long a connection is silent before the kernel probes it, and between probes.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long written bytes may stay unacknowledged before the kernel gives a connection up.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// Writes that redis-rs may hold. Its default of 50 is too small to keep a fast connection busy.
const PIPELINE_BUFFER: usize = 2048;

/// A connection, and the work that moves its bytes.
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    /// Has to be polled for the connection to be alive; ends with it. Whoever uses the connection polls it in the same task:
    /// each change of tasks on the way of a vote costs as much as the vote.
    pub(super) driver: BoxFuture<'static, ()>,
}

/// Connects to the server at an address. Ends `gone` when the connection is lost.
pub(super) async fn connect(info: ConnectionInfo, gone: CancellationToken) -> RedisResult<Connected> {
    let settings = info.redis_settings();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            set_up(&stream)?;
            over(stream, settings, gone).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => over(tokio::net::UnixStream::connect(path).await?, settings, gone).await,
        // No address of this kind is read from a URL.
        _ => Err((ErrorKind::InvalidClientConfig, "neither TCP nor a Unix socket").into()),
    }
}

fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}

async fn over<S>(stream: S, settings: &RedisConnectionInfo, gone: CancellationToken) -> RedisResult<Connected>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let notice = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            gone.cancel();
        }
        Ok::<(), std::convert::Infallible>(())
    };
    // No response timeout: the engine has its own, and a request that redis-rs gave up may be executed all the same.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_BUFFER)
        .set_push_sender(notice);
    let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
    Ok(Connected { connection, driver: Box::pin(driver) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vote_is_not_held_back_and_a_dead_link_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        set_up(&stream).unwrap();
        assert!(stream.nodelay().unwrap() && SockRef::from(&stream).keepalive().unwrap());
    }
}
