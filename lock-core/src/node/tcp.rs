//! TCP connections to servers: no request is held back, and a link that died is noticed.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A stream of bytes: a socket, TLS over one, or what a simulation has for it.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// How long a connection is silent before the kernel probes it, and the time between two probes.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long written bytes may stay unacknowledged before the kernel gives up the connection.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a server.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_not_held_back_and_a_dead_link_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(stream.nodelay().unwrap() && SockRef::from(&stream).keepalive().unwrap());
    }
}
