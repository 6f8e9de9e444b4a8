//! Recognizes the connections that carry wake-ups, and counts the wake-ups on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::PREFIX;
use super::link::Mode;

/// Counters of the wake-ups that went through the links.
#[derive(Default)]
pub(super) struct Counters {
    reserved: AtomicU64,
    next: AtomicU64,
    late: AtomicU64,
    lost: AtomicU64,
    cut: AtomicU64,
}

/// How many wake-ups the servers sent.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Wakeups {
    /// `WakeupKind::Reserved`.
    pub reserved: u64,
    /// `WakeupKind::Next`.
    pub next: u64,
    /// Those of either kind that a link held back.
    pub late: u64,
    /// Those that a link lost.
    pub lost: u64,
    /// Connections for wake-ups that were cut.
    pub cut: u64,
}

/// Observes one connection. It carries wake-ups if the service ever sent a `BLPOP` on it, which it does on no other.
pub(super) struct Tap {
    carries_wakeups: AtomicBool,
    counters: Arc<Counters>,
}

impl Counters {
    pub(super) fn read(&self) -> Wakeups {
        let [reserved, next, late, lost, cut] =
            [&self.reserved, &self.next, &self.late, &self.lost, &self.cut].map(|counter| counter.load(Relaxed));
        Wakeups { reserved, next, late, lost, cut }
    }
}

impl Tap {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        Self { carries_wakeups: AtomicBool::new(false), counters: Arc::clone(counters) }
    }

    pub(super) fn carries_wakeups(&self) -> bool {
        self.carries_wakeups.load(Relaxed)
    }

    /// Observes bytes that the service sent.
    pub(super) fn observe_request(&self, sent: &[u8]) {
        if contains(sent, "BLPOP") {
            self.carries_wakeups.store(true, Relaxed);
        }
    }

    /// Observes bytes that the server sent, on a link in this mode. They contain at most one wake-up: the service
    /// requests one at a time.
    pub(super) fn observe_reply(&self, sent: &[u8], mode: Mode) {
        let is = |kind: &str| contains(sent, &format!("\r\n{kind}{PREFIX}"));
        let counter = match (is("T"), is("S")) {
            (true, _) => &self.counters.reserved,
            (_, true) => &self.counters.next,
            _ => return,
        };
        let counters: &[&AtomicU64] = match mode {
            Mode::Pass | Mode::Delay(_) => &[counter],
            Mode::HoldBack(_) => &[counter, &self.counters.late],
            Mode::Cut | Mode::Lose(_) => &[&self.counters.lost],
        };
        for counter in counters {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Records that the connection was cut.
    pub(super) fn cut(&self) {
        if self.carries_wakeups() {
            self.counters.cut.fetch_add(1, Relaxed);
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::link::Direction;
    use super::*;

    /// The reply of a server to `BLPOP`.
    fn wakeup(what: &str) -> Vec<u8> {
        format!("*2\r\n$18\r\n{PREFIX}{{node}}:calls:1f\r\n$15\r\n{what}\r\n").into_bytes()
    }

    #[test]
    fn wakeups_are_counted_by_kind_and_by_fate() {
        let counters = Arc::default();
        let tap = Tap::new(&counters);
        tap.observe_reply(&wakeup("Tlock:account-0"), Mode::Pass);
        tap.observe_reply(&wakeup("Slock:account-0"), Mode::Pass);
        tap.observe_reply(b"*-1\r\n", Mode::Pass);
        tap.observe_reply(&wakeup("Tlock:account-0"), Mode::HoldBack(Direction::ToService));
        tap.observe_reply(&wakeup("Tlock:account-0"), Mode::Lose(Direction::ToService));
        let Wakeups { reserved, next, late, lost, cut } = counters.read();
        assert_eq!((reserved, next, late, lost, cut), (2, 1, 1, 1, 0));
    }

    #[test]
    fn a_connection_for_wakeups_is_recognized_by_its_requests() {
        let tap = Tap::new(&Arc::default());
        tap.observe_request(b"*3\r\n$7\r\nEVALSHA\r\n");
        assert!(!tap.carries_wakeups());
        tap.observe_request(b"*3\r\n$5\r\nBLPOP\r\n");
        assert!(tap.carries_wakeups());
    }
}
