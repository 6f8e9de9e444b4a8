//! The network between one service and one server: TCP proxies into which faults can be injected, one for each place in which the server
//! is.

use std::sync::Arc;
use std::time::Duration;

use lock_support::accept;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::frames::{Frames, Part};
use super::signposts::Signposts;
use super::store::Store;
use super::wakeups::{Counters, Tap, Traffic};

/// Proxies from ports of their own to a server.
pub(super) struct Link {
    store: Store,
    ports: Vec<u16>,
    modes: watch::Sender<Modes>,
    /// Ends with the link.
    _accepting: JoinSet<()>,
}

/// The modes of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Modes {
    all: Mode,
    /// Of the connections for wake-ups, while `all` is [`Mode::Pass`].
    wakeups: Mode,
    /// Of the connections for requests, while `all` is [`Mode::Pass`].
    requests: Mode,
}

impl Modes {
    /// What happens to the wake-ups alone, on a connection that carries requests, too.
    fn of_wakeups(self) -> Mode {
        if self.all == Mode::Pass { self.wakeups } else { Mode::Pass }
    }

    fn of(self, tap: &Tap) -> Mode {
        match tap.traffic() {
            Some(Traffic::Wakeups) if self.all == Mode::Pass => self.wakeups,
            Some(Traffic::Requests) if self.all == Mode::Pass => self.requests,
            _ => self.all,
        }
    }
}

/// How a link behaves. A change also affects open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Passes everything.
    #[default]
    Pass,
    /// Delays everything by this much, in both directions.
    Delay(Duration),
    /// Closes all connections and refuses new ones.
    Cut,
    /// Holds back what is sent in one direction until the link heals, even if the sender has gone.
    HoldBack(Direction),
    /// Loses what is sent in one direction. A connection that lost something is closed when the link heals.
    Lose(Direction),
}

/// A direction of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Requests.
    ToServer,
    /// Replies.
    ToService,
}

impl Link {
    /// Opens a link to the addresses of a server, and counts wake-ups on it.
    pub(super) async fn open(store: Store, server: Vec<String>, counters: Arc<Counters>) -> Self {
        let (mut listeners, mut ports) = (Vec::new(), Vec::new());
        for _ in &server {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            listeners.push(listener);
        }
        let signposts = Signposts::new(&server, &ports);
        let modes = watch::Sender::new(Modes::default());
        let mut accepting = JoinSet::new();
        for (server, listener) in server.into_iter().zip(listeners) {
            let (seen, counters, signposts) = (modes.subscribe(), Arc::clone(&counters), signposts.clone());
            let relay = move |client| {
                relay(client, server.clone(), seen.clone(), Tap::new(store, &counters), signposts.clone())
            };
            accepting.spawn(accept(listener, relay));
        }
        Self { store, ports, modes, _accepting: accepting }
    }

    pub(super) fn url(&self, service: usize) -> String {
        self.store.url(&self.ports, service)
    }

    pub(super) fn set(&self, mode: Mode) {
        self.modes.send_modify(|modes| modes.all = mode);
    }

    /// Sets the mode of those connections only that carry this.
    pub(super) fn set_only(&self, traffic: Traffic, mode: Mode) {
        self.modes.send_modify(|modes| match traffic {
            Traffic::Wakeups => modes.wakeups = mode,
            Traffic::Requests => modes.requests = mode,
        });
    }
}

async fn relay(client: TcpStream, server: String, modes: watch::Receiver<Modes>, tap: Tap, signposts: Signposts) {
    if modes.borrow().all == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((requests, to_client), (replies, to_server)) = (client.into_split(), server.into_split());
    let none = Signposts::default();
    // Each ends independently, so that requests that were held back arrive although nobody waits for the reply.
    tokio::join!(
        pump(requests, to_server, Direction::ToServer, modes.clone(), &tap, &none),
        pump(replies, to_client, Direction::ToService, modes, &tap, &signposts),
    );
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut modes: watch::Receiver<Modes>,
    tap: &Tap,
    signposts: &Signposts,
) {
    let mut cut = modes.clone();
    let pumping = async {
        let mut buffer = vec![0; 16 * 1024];
        let (mut frames, mut held) = (Frames::default(), Vec::new());
        loop {
            let healed = async { modes.wait_for(|modes| modes.of_wakeups() == Mode::Pass).await.is_ok() };
            let read = tokio::select! {
                biased;
                healed = healed, if !held.is_empty() => {
                    if !healed || to.write_all(&std::mem::take(&mut held)).await.is_err() {
                        break;
                    }
                    continue;
                }
                read = from.read(&mut buffer) => read,
            };
            let Ok(count @ 1..) = read else { break };
            signposts.turn(&mut buffer[..count]);
            let mut sent = &buffer[..count];
            if direction == Direction::ToServer {
                tap.observe_request(sent);
            }
            let now = modes.borrow().of(tap);
            let passed;
            if direction == Direction::ToService {
                tap.observe_reply(sent, now);
                if tap.may_carry_messages() {
                    passed = pass(frames.split(sent), modes.borrow().of_wakeups(), &mut held, tap);
                    sent = &passed;
                }
            }
            if let Mode::Delay(delay) = now {
                tokio::time::sleep(delay).await;
            }
            let lost = [Mode::Cut, Mode::Lose(direction)].contains(&now);
            let healed = |modes: &Modes| ![Mode::HoldBack(direction), Mode::Lose(direction)].contains(&modes.of(tap));
            if modes.wait_for(healed).await.is_err() || lost || to.write_all(sent).await.is_err() {
                break;
            }
        }
        _ = to.shutdown().await;
    };
    tokio::select! {
        () = pumping => {}
        // A connection whose kind turns out only now is cut, too: its request is not passed on, and the server ends it.
        _ = cut.wait_for(|modes| modes.of(tap) == Mode::Cut) => if direction == Direction::ToService { tap.cut() },
    }
}

/// What of these parts passes now. Wake-ups may be lost, or held back.
fn pass(parts: Vec<Part>, mode: Mode, held: &mut Vec<u8>, tap: &Tap) -> Vec<u8> {
    let mut passed = Vec::new();
    for part in parts {
        match part {
            Part::Other(bytes) => passed.extend(bytes),
            Part::Wakeup(bytes) => {
                tap.observe_message(&bytes, mode);
                match mode {
                    Mode::Lose(Direction::ToService) => {}
                    Mode::HoldBack(Direction::ToService) => held.extend(bytes),
                    _ => passed.extend(bytes),
                }
            }
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server, and a connection to it through a link.
    async fn echo() -> (Link, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let link = Link::open(Store::Postgres, vec![listener.local_addr().unwrap().to_string()], Arc::default()).await;
        tokio::spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                streams.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let client = TcpStream::connect(("127.0.0.1", link.ports[0])).await.unwrap();
        (link, client)
    }

    async fn echoed_byte(client: &mut TcpStream) -> std::io::Result<usize> {
        echoed(client, "x").await
    }

    async fn echoed(client: &mut TcpStream, what: &str) -> std::io::Result<usize> {
        client.write_all(what.as_bytes()).await.unwrap();
        tokio::time::timeout(Duration::from_millis(50), client.read(&mut [0; 16])).await?
    }

    #[tokio::test]
    async fn held_back_bytes_arrive_later() {
        for direction in [Direction::ToServer, Direction::ToService] {
            let (link, mut client) = echo().await;
            link.set(Mode::HoldBack(direction));
            assert!(echoed_byte(&mut client).await.is_err());
            link.set(Mode::Pass);
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn lost_bytes_do_not_arrive_and_end_the_connection() {
        for direction in [Direction::ToServer, Direction::ToService] {
            let (link, mut client) = echo().await;
            link.set(Mode::Lose(direction));
            assert!(echoed_byte(&mut client).await.is_err());
            link.set(Mode::Pass);
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn a_cut_closes_open_connections() {
        let (link, mut client) = echo().await;
        link.set(Mode::Cut);
        assert!(!matches!(client.read(&mut [0; 8]).await, Ok(1..)));
    }

    #[tokio::test]
    async fn a_fault_of_one_kind_of_connections_leaves_the_others_alone() {
        let kinds = [(Traffic::Wakeups, "LISTEN"), (Traffic::Requests, "pg_temp.")];
        for mode in [Mode::Cut, Mode::Lose(Direction::ToService), Mode::HoldBack(Direction::ToServer)] {
            for (traffic, command) in kinds {
                let (link, mut hit) = echo().await;
                let mut other = TcpStream::connect(("127.0.0.1", link.ports[0])).await.unwrap();
                assert_eq!(echoed(&mut hit, command).await.unwrap(), command.len());
                link.set_only(traffic, mode);
                assert!(!matches!(echoed(&mut hit, command).await, Ok(1..)), "{mode:?}");
                assert_eq!(echoed_byte(&mut other).await.unwrap(), 1, "{mode:?}");
                // A connection that becomes one of them later fares no better.
                assert!(!matches!(echoed(&mut other, command).await, Ok(1..)), "{mode:?}");
            }
        }
    }
}
