//! TCP connections to servers: no request is held back, and a link that died is noticed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// A stream of bytes: a socket, TLS over one, or what a simulation has for it.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// How long a connection is silent before the kernel probes it, and the time between two probes.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long written bytes may stay unacknowledged before the kernel gives up the connection.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an address has before the next one is tried beside it, as RFC 8305 (Happy Eyeballs) recommends.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Connects to a server.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = connect_to_any(lookup_host((host, port)).await?).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    Ok(stream)
}

/// Connects to the first address that answers. One that drops packets, of a host that is gone or of an IPv6 that leads nowhere, takes minutes,
/// and would be the first again at the next attempt.
async fn connect_to_any(mut addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = FuturesUnordered::new();
    let mut failed = io::Error::other("the name of the host has no address");
    loop {
        attempts.extend(addresses.next().map(TcpStream::connect));
        match timeout(NEXT_ADDRESS, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => failed = error,
            Ok(None) => return Err(failed),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:0";

    #[tokio::test]
    async fn an_address_that_drops_packets_or_refuses_does_not_keep_from_the_next_one() {
        // With its backlog full, a socket drops what asks for a connection.
        let drops = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        drops.bind(&LOOPBACK.parse::<SocketAddr>().unwrap().into()).unwrap();
        drops.listen(0).unwrap();
        let dropped = drops.local_addr().unwrap().as_socket().unwrap();
        let mut filling = Vec::new();
        while let Ok(stream) = timeout(NEXT_ADDRESS, TcpStream::connect(dropped)).await {
            filling.push(stream.unwrap());
        }
        let refused = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap().local_addr().unwrap();
        let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
        let good = listener.local_addr().unwrap();
        let stream = connect_to_any([dropped, refused, good].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        let error = connect_to_any([refused].into_iter()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect_to_any(std::iter::empty()).await.is_err());
    }

    #[tokio::test]
    async fn a_request_is_not_held_back_and_a_dead_link_is_noticed() {
        let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(stream.nodelay().unwrap() && SockRef::from(&stream).keepalive().unwrap());
    }
}
