//! The connections on which servers call services: how they are told from the others, and what was called there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::PREFIX;
use super::link::Mode;

/// What servers called, as it went through the links.
#[derive(Default)]
pub(super) struct Counters {
    turns: AtomicU64,
    nexts: AtomicU64,
    late: AtomicU64,
    lost: AtomicU64,
    cut: AtomicU64,
}

/// How many calls there were.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Calls {
    /// It is your turn.
    pub turns: u64,
    /// You are next.
    pub nexts: u64,
    /// Of either, those that were held back for a while.
    pub late: u64,
    /// Calls that never arrived.
    pub lost: u64,
    /// Connections that were cut.
    pub cut: u64,
}

/// One connection. A service listens on it if it ever sent a `BLPOP`, which it does nowhere else.
pub(super) struct Ear {
    listens: AtomicBool,
    counters: Arc<Counters>,
}

impl Counters {
    pub(super) fn read(&self) -> Calls {
        let [turns, nexts, late, lost, cut] =
            [&self.turns, &self.nexts, &self.late, &self.lost, &self.cut].map(|counter| counter.load(Relaxed));
        Calls { turns, nexts, late, lost, cut }
    }
}

impl Ear {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        Self { listens: AtomicBool::new(false), counters: Arc::clone(counters) }
    }

    pub(super) fn listens(&self) -> bool {
        self.listens.load(Relaxed)
    }

    /// Looks at what a service sent.
    pub(super) fn request(&self, sent: &[u8]) {
        if contains(sent, "BLPOP") {
            self.listens.store(true, Relaxed);
        }
    }

    /// Counts what a server sent, on a link in this mode. There is one call in it, or none: who listens asks for one.
    pub(super) fn answer(&self, sent: &[u8], mode: Mode) {
        let is = |turn: &str| contains(sent, &format!("\r\n{turn}{PREFIX}"));
        let counter = match (is("T"), is("S")) {
            (true, _) => &self.counters.turns,
            (_, true) => &self.counters.nexts,
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

    /// The connection was cut.
    pub(super) fn cut(&self) {
        if self.listens() {
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

    /// As a server answers to `BLPOP`.
    fn call(what: &str) -> Vec<u8> {
        format!("*2\r\n$18\r\n{PREFIX}{{node}}:calls:1f\r\n$15\r\n{what}\r\n").into_bytes()
    }

    #[test]
    fn calls_are_counted_as_what_became_of_them() {
        let counters = Arc::default();
        let ear = Ear::new(&counters);
        ear.answer(&call("Tlock:account-0"), Mode::Pass);
        ear.answer(&call("Slock:account-0"), Mode::Pass);
        ear.answer(b"*-1\r\n", Mode::Pass);
        ear.answer(&call("Tlock:account-0"), Mode::HoldBack(Direction::ToService));
        ear.answer(&call("Tlock:account-0"), Mode::Lose(Direction::ToService));
        let Calls { turns, nexts, late, lost, cut } = counters.read();
        assert_eq!((turns, nexts, late, lost, cut), (2, 1, 1, 1, 0));
    }

    #[test]
    fn who_listens_is_told_by_what_it_asks() {
        let ear = Ear::new(&Arc::default());
        ear.request(b"*3\r\n$7\r\nEVALSHA\r\n");
        assert!(!ear.listens());
        ear.request(b"*3\r\n$5\r\nBLPOP\r\n");
        assert!(ear.listens());
    }
}
