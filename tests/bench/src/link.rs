//! A proxy that makes a master distant.
//!
//! It runs on threads of the operating system, because the timers of a runtime are only as fine as a millisecond. Each
//! connection has four: one that reads and one that writes, in each direction.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use lock_support::{Dice, RedisCluster};
use rustix::thread::set_current_timer_slack;

/// How long a message travels, one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    /// At least.
    pub(super) base: Duration,
    /// The mean of what is added, which is distributed exponentially.
    pub(super) jitter: Duration,
    /// What is added to one message in this many, as if it had been lost and sent again.
    pub(super) straggler: Option<(u64, Duration)>,
}

impl Distance {
    fn roll(&self, dice: &mut Dice) -> Duration {
        const STEPS: u64 = 1 << 32;
        let uniform = (dice.roll(STEPS) + 1) as f64 / STEPS as f64;
        let late = self.straggler.filter(|(one_in, _)| dice.roll(*one_in) == 0);
        self.base + self.jitter.mul_f64(-uniform.ln()) + late.map_or(Duration::ZERO, |(_, more)| more)
    }
}

/// Masters, each behind a proxy.
pub(super) struct DistantMasters {
    pub(super) cluster: RedisCluster,
    links: Vec<Link>,
}

impl DistantMasters {
    pub(super) async fn start(count: usize, distance: Distance) -> io::Result<Self> {
        let cluster = RedisCluster::start(count).await;
        let links = cluster.servers.iter().map(|server| Link::open(server.address(), distance));
        Ok(Self { links: links.collect::<io::Result<_>>()?, cluster })
    }

    /// The URLs of the proxies.
    pub(super) fn urls(&self) -> Vec<String> {
        self.links.iter().map(|link| format!("redis://{}", link.address)).collect()
    }
}

/// A proxy in front of one master. Its threads end when it is dropped and the connections through it are closed.
struct Link {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Link {
    fn open(server: String, distance: Distance) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, closed) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let ending = Arc::clone(&closed);
        thread::spawn(move || {
            for client in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    break;
                }
                // The client notices that its connection is closed.
                _ = client.and_then(|client| relay(&client, &TcpStream::connect(&server)?, distance));
            }
        });
        Ok(Self { address, closed })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        _ = TcpStream::connect(self.address);
    }
}

fn relay(client: &TcpStream, server: &TcpStream, distance: Distance) -> io::Result<()> {
    /// Far more messages than are ever on their way; a sender that gets ahead of them waits, as it does for a full pipe.
    const MAX_TRAVELING: usize = 4096;
    for (from, to) in [(client, server), (server, client)] {
        from.set_nodelay(true)?;
        let (from, to, (sent, traveling)) = (from.try_clone()?, to.try_clone()?, sync_channel(MAX_TRAVELING));
        thread::spawn(move || send(from, &sent, distance));
        thread::spawn(move || arrive(to, &traveling));
    }
    Ok(())
}

/// A message on its way, and when it arrives.
type Message = (Instant, Vec<u8>);

/// Reads messages. None arrives before one that was sent earlier on the same connection.
fn send(mut from: TcpStream, sent: &SyncSender<Message>, distance: Distance) {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let mut dice = Dice::new(SEED.fetch_add(1, Ordering::Relaxed));
    let (mut buffer, mut latest) = (vec![0; 64 * 1024], Instant::now());
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        latest = latest.max(Instant::now() + distance.roll(&mut dice));
        if sent.send((latest, buffer[..count].to_vec())).is_err() {
            break;
        }
    }
}

/// Writes each message when it arrives.
fn arrive(mut to: TcpStream, traveling: &Receiver<Message>) {
    // By default, a thread may sleep 50 us longer than it asked for. Where this cannot be changed, masters are a little further.
    _ = set_current_timer_slack(NonZeroU64::new(1));
    for (arrival, message) in traveling {
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        if to.write_all(&message).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_its_time_and_overtakes_none() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let distance = Distance {
            base: Duration::from_millis(2),
            jitter: Duration::from_millis(1),
            straggler: Some((2, Duration::from_millis(5))),
        };
        let link = Link::open(server.local_addr().unwrap().to_string(), distance).unwrap();
        let mut client = TcpStream::connect(link.address).unwrap();
        client.set_nodelay(true).unwrap();
        let (mut at_server, _) = server.accept().unwrap();
        let began = Instant::now();
        let sent: Vec<u8> = (0..50).collect();
        for byte in &sent {
            client.write_all(&[*byte]).unwrap();
        }
        let mut received = vec![0; sent.len()];
        at_server.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
        assert!(began.elapsed() >= distance.base);
    }
}
