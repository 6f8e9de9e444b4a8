//! The stream of bytes to a server, and the first byte that it answers with: that shows whether it is a PostgreSQL server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

/// What a server answers a startup packet with: a question for the login, an error, a notice, or other versions of the protocol.
const ANSWERS: [u8; 4] = *b"RENv";

/// How long a server may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_millis(250);

/// A stream of bytes: a socket, or TLS over one.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A stream that fails if what it reads first is of another protocol. tokio-postgres would take it for the beginning of a message,
/// and wait for the rest.
pub(super) struct FirstAnswer {
    stream: Box<dyn Io>,
    has_answered: bool,
}

impl FirstAnswer {
    pub(super) fn new(stream: Box<dyn Io>) -> Self {
        Self { stream, has_answered: false }
    }
}

/// Whether a server that says nothing during a login is a Redis server: that waits for the end of a line, which a login has not.
pub(super) async fn is_redis(mut stream: Box<dyn Io>) -> bool {
    let answer = async {
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    matches!(timeout(PING_TIMEOUT, answer).await, Ok(Ok(b'+' | b'-')))
}

impl AsyncRead for FirstAnswer {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if !self.has_answered
            && let Some(first) = buf.filled().get(before)
        {
            if !ANSWERS.contains(first) {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            self.has_answered = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FirstAnswer {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
