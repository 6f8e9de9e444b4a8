use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;
use turmoil::net::TcpStream;

/// How long what a server sent may be on its way. Longer than a fault of a link delays it: what takes longer is lost, and so is
/// the connection, because the simulated network sends nothing twice.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(3);

/// The open connections of each host.
///
/// When a host crashes, tokio drops its tasks in an order that depends on what else runs in this process. If each task closed
/// its connection then, the run would not replay. So the connections are dropped first, in the order in which they were
/// opened, and without notice to the other side, as when a machine loses power.
#[derive(Default)]
pub(super) struct Sockets {
    open: Mutex<BTreeMap<String, Vec<Weak<Slot>>>>,
    /// The connections that a server has accepted and the client has not yet, by the addresses of both.
    accepted: Mutex<BTreeMap<(SocketAddr, SocketAddr), Arc<Carried>>>,
}

/// A connection that can be dropped while a task still owns it.
pub(super) struct Socket {
    stream: Arc<Slot>,
    carried: Arc<Carried>,
    end: End,
}

type Slot = Mutex<Option<TcpStream>>;

/// How many bytes the server of a connection has sent, and how many of them the client has received.
#[derive(Default)]
struct Carried {
    sent: AtomicUsize,
    received: AtomicUsize,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl Sockets {
    /// Registers a connection of a host, which is this end of it.
    pub(super) fn add(&self, host: &str, stream: TcpStream, end: End) -> io::Result<Socket> {
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let mut accepted = lock(&self.accepted);
        // The server accepts a connection before its client has it.
        let carried = match end {
            End::Server => {
                let carried = Arc::default();
                accepted.insert((peer, local), Arc::clone(&carried));
                carried
            }
            End::Client => accepted.remove(&(local, peer)).unwrap_or_default(),
        };
        let stream = Arc::new(Mutex::new(Some(stream)));
        let mut sockets = lock(&self.open);
        let sockets = sockets.entry(host.to_owned()).or_default();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&stream));
        Ok(Socket { stream, carried, end })
    }

    /// Drops all connections of a host. Must be called from outside of the simulation: inside, dropping closes them.
    pub(super) fn drop_connections(&self, host: &str) {
        let sockets = lock(&self.open).remove(host);
        for socket in sockets.into_iter().flatten().filter_map(|socket| Weak::upgrade(&socket)) {
            drop(lock(&socket).take());
        }
    }
}

impl Socket {
    /// Waits until the server of the connection notices that the client does not receive what it sends.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + use<> {
        let carried = Arc::clone(&self.carried);
        async move {
            loop {
                let sent = carried.sent.load(Ordering::Relaxed);
                sleep(LOST_AFTER).await;
                if carried.received.load(Ordering::Relaxed) < sent {
                    return;
                }
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *lock(&self.stream) {
            Some(stream) => work(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.with(|stream| stream.poll_read(cx, buf));
        if self.end == End::Client {
            self.carried.received.fetch_add(buf.filled().len() - before, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.with(|stream| stream.poll_write(cx, bytes));
        if let (End::Server, Poll::Ready(Ok(sent))) = (self.end, &written) {
            self.carried.sent.fetch_add(*sent, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}
