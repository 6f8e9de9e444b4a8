//! Recognizes the connections that carry wake-ups and those that carry requests, and counts the wake-ups.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;

use super::PREFIX;
use super::link::Mode;
use super::store::Store;

/// Counters of the wake-ups that went through the links, and of the connections that were cut.
#[derive(Default)]
pub(super) struct Counters {
    reserved: AtomicU64,
    next: AtomicU64,
    late: AtomicU64,
    lost: AtomicU64,
    cut: AtomicU64,
    requests_cut: AtomicU64,
}

/// How many wake-ups the servers sent.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Wakeups {
    /// For a waiter that the key is reserved for at once.
    pub reserved: u64,
    /// For a waiter that the key is reserved for after others.
    pub next: u64,
    /// Those of either kind that a link held back.
    pub late: u64,
    /// Those that a link lost.
    pub lost: u64,
    /// Connections for wake-ups that were cut.
    pub cut: u64,
    /// Connections for requests that were cut.
    pub requests_cut: u64,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Wakeups,
    Requests,
}

/// Observes one connection.
pub(super) struct Tap {
    store: Store,
    traffic: OnceLock<Traffic>,
    /// The last line or string of the server, as far as it has arrived, if the connection carries wake-ups.
    line: Mutex<Vec<u8>>,
    counters: Arc<Counters>,
}

impl Counters {
    pub(super) fn read(&self) -> Wakeups {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Wakeups {
            reserved: read(&self.reserved),
            next: read(&self.next),
            late: read(&self.late),
            lost: read(&self.lost),
            cut: read(&self.cut),
            requests_cut: read(&self.requests_cut),
        }
    }

    /// Counts a line or string that the server sent, if it is the payload of a wake-up.
    fn count(&self, line: &[u8], mode: Mode) {
        let Some(before) = reservations_before(line) else { return };
        let counter = if before == 0 { &self.reserved } else { &self.next };
        let counters: &[&AtomicU64] = match mode {
            Mode::Pass | Mode::Delay(_) => &[counter],
            Mode::HoldBack(_) => &[counter, &self.late],
            Mode::Cut | Mode::Lose(_) => &[&self.lost],
        };
        for counter in counters {
            counter.fetch_add(1, Relaxed);
        }
    }
}

impl Tap {
    pub(super) fn new(store: Store, counters: &Arc<Counters>) -> Self {
        Self { store, traffic: OnceLock::new(), line: Mutex::default(), counters: Arc::clone(counters) }
    }

    /// What the connection carries, if that is known already.
    pub(super) fn traffic(&self) -> Option<Traffic> {
        self.traffic.get().copied()
    }

    /// Observes bytes that the service sent.
    pub(super) fn observe_request(&self, sent: &[u8]) {
        if self.traffic().is_some() {
            return;
        }
        if let Some((_, traffic)) = self.store.signs().iter().find(|(sign, _)| contains(sent, sign)) {
            // A connection has one reader, so nobody else has set it.
            _ = self.traffic.set(*traffic);
        }
    }

    /// Observes bytes that the server sent, on a link in this mode. A message may come in pieces, or together with others.
    pub(super) fn observe_reply(&self, sent: &[u8], mode: Mode) {
        if self.traffic() != Some(Traffic::Wakeups) {
            return;
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in sent {
            match byte {
                // The end of a line of Redis, and of a string of PostgreSQL.
                b'\n' | 0 => {
                    self.counters.count(&line, mode);
                    line.clear();
                }
                byte => line.push(*byte),
            }
        }
    }

    /// Whether wake-ups may come between the replies to requests.
    pub(super) fn may_carry_messages(&self) -> bool {
        self.store.calls_between_replies()
    }

    /// Observes a wake-up on a connection that carries requests, too.
    pub(super) fn observe_message(&self, message: &[u8], mode: Mode) {
        message.split(|byte| *byte == b'\n').for_each(|line| self.counters.count(line, mode));
    }

    /// Records that the connection was cut.
    pub(super) fn cut(&self) {
        let counter = match self.traffic() {
            Some(Traffic::Wakeups) => &self.counters.cut,
            Some(Traffic::Requests) => &self.counters.requests_cut,
            None => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// For how many waiters the key is reserved before the one that is woken by this line: `<number> <lock key>`, the payload of a
/// message. Of a slot, the free ones follow the number. In a cluster, the prefix is a hash tag. No other line is like that.
fn reservations_before(line: &[u8]) -> Option<u32> {
    let (numbers, lock_key) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let before = numbers.split(',').next()?;
    lock_key.trim_start_matches('{').starts_with(PREFIX).then(|| before.parse().ok())?
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::link::Direction;
    use super::*;

    /// A message of a server.
    fn wakeup(payload: &str) -> Vec<u8> {
        let (channel, length) = (format!("{PREFIX}{{node}}:wakeups:1f"), payload.len());
        format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${length}\r\n{payload}\r\n", channel.len()).into_bytes()
    }

    fn subscribed(counters: &Arc<Counters>) -> Tap {
        let tap = Tap::new(Store::Postgres, counters);
        tap.observe_request(b"LISTEN");
        tap
    }

    #[test]
    fn wakeups_are_counted_by_kind_and_by_fate() {
        let counters = Arc::default();
        let tap = subscribed(&counters);
        tap.observe_reply(b"*3\r\n$9\r\nsubscribe\r\n$20\r\nlock:{node}:wakeups:1f\r\n:1\r\n", Mode::Pass);
        tap.observe_reply(&[wakeup("0 lock:account-0"), wakeup("0 lock:account-0")].concat(), Mode::Pass);
        tap.observe_reply(&wakeup("4 lock:account-0"), Mode::HoldBack(Direction::ToService));
        tap.observe_reply(&wakeup("0 lock:account-0"), Mode::Lose(Direction::ToService));
        let Wakeups { reserved, next, late, lost, .. } = counters.read();
        assert_eq!((reserved, next, late, lost), (2, 1, 1, 1));
    }

    #[test]
    fn notifications_are_counted_as_wakeups() {
        let counters = Arc::default();
        let tap = Tap::new(Store::Postgres, &counters);
        tap.observe_request(b"Q\0\0\0\x31LISTEN \"locks_7\"; SELECT pg_advisory_lock_shared(7)\0");
        for payload in ["0 lock:account-0 7.5", "2 lock:account-0 7.5", "0,1 lock:account-1{1} 7.5", "what others say"]
        {
            let length = u32::try_from(4 + 4 + 8 + payload.len() + 1).unwrap().to_be_bytes();
            let notification = [b"A", &length[..], b"\0\0\x12\x0a", b"locks_7\0", payload.as_bytes(), b"\0"].concat();
            tap.observe_reply(&notification, Mode::Pass);
        }
        assert_eq!((counters.read().reserved, counters.read().next), (2, 1));
    }

    #[test]
    fn a_wakeup_that_arrives_in_pieces_is_counted_once() {
        let counters = Arc::default();
        let (tap, wakeup) = (subscribed(&counters), wakeup("1 lock:account-0"));
        wakeup.chunks(3).for_each(|piece| tap.observe_reply(piece, Mode::Pass));
        assert_eq!((counters.read().reserved, counters.read().next), (0, 1));
    }

    #[test]
    fn what_a_connection_carries_is_recognized_by_its_requests() {
        let carries = |requests: &[&str]| {
            let tap = Tap::new(Store::Postgres, &Arc::default());
            requests.iter().for_each(|request| tap.observe_request(request.as_bytes()));
            tap.traffic()
        };
        assert_eq!(carries(&["SELECT"]), None);
        assert_eq!(carries(&["SELECT", "LISTEN"]), Some(Traffic::Wakeups));
        assert_eq!(carries(&["pg_temp.lock_votes", "SELECT"]), Some(Traffic::Requests));
    }

    #[test]
    fn cut_connections_are_counted_by_what_they_carry() {
        let counters = Arc::default();
        subscribed(&counters).cut();
        let requests = Tap::new(Store::Redis, &counters);
        assert!(requests.may_carry_messages());
        requests.observe_message(&wakeup("0 lock:account-0"), Mode::Pass);
        assert_eq!(counters.read().reserved, 1);
        requests.cut();
        requests.observe_request(b"SCRIPT");
        requests.cut();
        let Wakeups { cut, requests_cut, .. } = counters.read();
        assert_eq!((cut, requests_cut), (1, 1));
    }
}
