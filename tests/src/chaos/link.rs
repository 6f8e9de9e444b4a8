//! The network between one service and one server: a TCP proxy that can be hurt while it runs.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A way through the network from a port of its own to a server.
pub(super) struct Link {
    port: u16,
    mode: watch::Sender<Mode>,
    accepting: JoinHandle<()>,
}

/// How a link behaves. A change holds for the connections that are open, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// As a network should.
    Pass,
    /// What is sent arrives this much later, in both directions.
    Delay(Duration),
    /// Connections are closed, and new ones, too.
    Cut,
    /// What is sent in one direction arrives when the link is well again: late, and even if the sender has gone.
    HoldBack(Direction),
    /// What is sent in one direction is lost. A connection that lost something is closed when the link is well again.
    Lose(Direction),
}

/// Whence and whither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Requests.
    ToServer,
    /// Answers.
    ToService,
}

impl Link {
    /// Opens a link to a server's address.
    pub(super) async fn open(server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = watch::Sender::new(Mode::Pass);
        let accepting = tokio::spawn(accept(listener, server, mode.subscribe()));
        Self { port, mode, accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, mode: watch::Receiver<Mode>) {
    // Dropped, it ends the connections.
    let mut relays = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while relays.try_join_next().is_some() {}
        if *mode.borrow() != Mode::Cut {
            relays.spawn(relay(client, server.clone(), mode.clone()));
        }
    }
}

async fn relay(client: TcpStream, server: String, mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((requests, to_client), (answers, to_server)) = (client.into_split(), server.into_split());
    // Each ends by itself, so that requests that were held back arrive although nobody waits for the answer.
    tokio::join!(
        pump(requests, to_server, Direction::ToServer, mode.clone()),
        pump(answers, to_client, Direction::ToService, mode),
    );
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: Direction, mut mode: watch::Receiver<Mode>) {
    let mut cut = mode.clone();
    let pumping = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let now = *mode.borrow();
            if let Mode::Delay(delay) = now {
                tokio::time::sleep(delay).await;
            }
            let lost = now == Mode::Lose(direction);
            let well = |mode: &Mode| *mode != Mode::HoldBack(direction) && *mode != Mode::Lose(direction);
            if mode.wait_for(well).await.is_err() || lost || to.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        _ = to.shutdown().await;
    };
    tokio::select! {
        () = pumping => {}
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, and a connection to it through a link.
    async fn echo() -> (Link, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let link = Link::open(listener.local_addr().unwrap().to_string()).await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut from, mut to) = stream.split();
            tokio::io::copy(&mut from, &mut to).await
        });
        let client = TcpStream::connect(("127.0.0.1", link.port)).await.unwrap();
        (link, client)
    }

    async fn ask(client: &mut TcpStream) -> std::io::Result<usize> {
        client.write_all(b"x").await.unwrap();
        tokio::time::timeout(Duration::from_millis(50), client.read(&mut [0; 8])).await?
    }

    #[tokio::test]
    async fn what_is_held_back_arrives_later() {
        for direction in [Direction::ToServer, Direction::ToService] {
            let (link, mut client) = echo().await;
            link.set(Mode::HoldBack(direction));
            assert!(ask(&mut client).await.is_err());
            link.set(Mode::Pass);
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn what_is_lost_does_not_arrive_and_ends_the_connection() {
        for direction in [Direction::ToServer, Direction::ToService] {
            let (link, mut client) = echo().await;
            link.set(Mode::Lose(direction));
            assert!(ask(&mut client).await.is_err());
            link.set(Mode::Pass);
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn a_cut_ends_what_is_open() {
        let (link, mut client) = echo().await;
        link.set(Mode::Cut);
        assert!(!matches!(client.read(&mut [0; 8]).await, Ok(1..)));
    }
}
