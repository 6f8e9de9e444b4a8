use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

/// The open connections of each host.
///
/// When a host crashes, tokio drops its tasks in an order that depends on what else runs in this process. If each task closed
/// its connection then, the run would not replay. So the connections are dropped first, in the order in which they were
/// opened, and without notice to the other side, as when a machine loses power.
#[derive(Default)]
pub(super) struct Sockets(Mutex<BTreeMap<String, Vec<Weak<Slot>>>>);

/// A connection that can be dropped while a task still owns it.
pub(super) struct Socket(Arc<Slot>);

type Slot = Mutex<Option<TcpStream>>;

impl Sockets {
    /// Registers a connection of a host.
    pub(super) fn add(&self, host: &str, stream: TcpStream) -> Socket {
        let stream = Arc::new(Mutex::new(Some(stream)));
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = sockets.entry(host.to_owned()).or_default();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&stream));
        Socket(stream)
    }

    /// Drops all connections of a host. Must be called from outside of the simulation: inside, dropping closes them.
    pub(super) fn drop_connections(&self, host: &str) {
        let sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
        for socket in sockets.into_iter().flatten().filter_map(|socket| Weak::upgrade(&socket)) {
            drop(lock(&socket).take());
        }
    }
}

impl Socket {
    fn with<T>(&self, work: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *lock(&self.0) {
            Some(stream) => work(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }
}

fn lock(socket: &Slot) -> MutexGuard<'_, Option<TcpStream>> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}
