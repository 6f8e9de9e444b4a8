//! The network between one service and one server: a TCP proxy that can be hurt while it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::calls::{Counters, Ear};

/// A way through the network from a port of its own to a server.
pub(super) struct Link {
    port: u16,
    modes: watch::Sender<Modes>,
    accepting: JoinHandle<()>,
}

/// How the connections of a link behave.
#[derive(Clone, Copy, Debug, Default)]
struct Modes {
    all: Mode,
    /// The connections on which calls come, if nothing else is with all of them.
    calls: Mode,
}

impl Modes {
    fn of(self, ear: &Ear) -> Mode {
        if self.all == Mode::Pass && ear.listens() { self.calls } else { self.all }
    }
}

/// How a link behaves. A change holds for the connections that are open, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// As a network should.
    #[default]
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
    /// Opens a link to a server's address, on which calls are counted.
    pub(super) async fn open(server: String, counters: Arc<Counters>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let modes = watch::Sender::new(Modes::default());
        let accepting = tokio::spawn(accept(listener, server, modes.subscribe(), counters));
        Self { port, modes, accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn set(&self, mode: Mode) {
        self.modes.send_modify(|modes| modes.all = mode);
    }

    /// Sets how the connections behave on which the server calls the service, and no others.
    pub(super) fn set_calls(&self, mode: Mode) {
        self.modes.send_modify(|modes| modes.calls = mode);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, modes: watch::Receiver<Modes>, counters: Arc<Counters>) {
    // Dropped, it ends the connections.
    let mut relays = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while relays.try_join_next().is_some() {}
        if modes.borrow().all != Mode::Cut {
            relays.spawn(relay(client, server.clone(), modes.clone(), Ear::new(&counters)));
        }
    }
}

async fn relay(client: TcpStream, server: String, modes: watch::Receiver<Modes>, ear: Ear) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((requests, to_client), (answers, to_server)) = (client.into_split(), server.into_split());
    // Each ends by itself, so that requests that were held back arrive although nobody waits for the answer.
    tokio::join!(
        pump(requests, to_server, Direction::ToServer, modes.clone(), &ear),
        pump(answers, to_client, Direction::ToService, modes, &ear),
    );
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut modes: watch::Receiver<Modes>,
    ear: &Ear,
) {
    let mut cut = modes.clone();
    let pumping = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let sent = &buffer[..count];
            if direction == Direction::ToServer {
                ear.request(sent);
            }
            let now = modes.borrow().of(ear);
            if direction == Direction::ToService {
                ear.answer(sent, now);
            }
            if let Mode::Delay(delay) = now {
                tokio::time::sleep(delay).await;
            }
            let lost = [Mode::Cut, Mode::Lose(direction)].contains(&now);
            let well = |modes: &Modes| ![Mode::HoldBack(direction), Mode::Lose(direction)].contains(&modes.of(ear));
            if modes.wait_for(well).await.is_err() || lost || to.write_all(sent).await.is_err() {
                break;
            }
        }
        _ = to.shutdown().await;
    };
    tokio::select! {
        () = pumping => {}
        // One that listens is cut, too, if it says so only now: what it asks for is not sent, and its server ends it.
        _ = cut.wait_for(|modes| modes.of(ear) == Mode::Cut) => if direction == Direction::ToService { ear.cut() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, and a connection to it through a link.
    async fn echo() -> (Link, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let link = Link::open(listener.local_addr().unwrap().to_string(), Arc::default()).await;
        tokio::spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                streams.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let client = TcpStream::connect(("127.0.0.1", link.port)).await.unwrap();
        (link, client)
    }

    async fn ask(client: &mut TcpStream) -> std::io::Result<usize> {
        say(client, "x").await
    }

    async fn say(client: &mut TcpStream, what: &str) -> std::io::Result<usize> {
        client.write_all(what.as_bytes()).await.unwrap();
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

    #[tokio::test]
    async fn the_connection_on_which_calls_come_is_hurt_alone() {
        for mode in [Mode::Cut, Mode::Lose(Direction::ToService), Mode::HoldBack(Direction::ToServer)] {
            let (link, mut listens) = echo().await;
            let mut other = TcpStream::connect(("127.0.0.1", link.port)).await.unwrap();
            assert_eq!(say(&mut listens, "BLPOP").await.unwrap(), 5);
            link.set_calls(mode);
            assert!(!matches!(say(&mut listens, "BLPOP").await, Ok(1..)), "{mode:?}");
            assert_eq!(ask(&mut other).await.unwrap(), 1, "{mode:?}");
            // Whoever begins to listen now fares no better.
            assert!(!matches!(say(&mut other, "BLPOP").await, Ok(1..)), "{mode:?}");
        }
    }
}
