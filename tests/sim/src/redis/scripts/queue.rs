use std::collections::BTreeMap;

use super::lua::{float, number, texts, whole};
use super::votes::Votes;

/// How long queue, turn and calls live, in milliseconds.
const QUEUE_LIFE: i64 = 10_000;
const RESERVATION_TTL: i64 = 100;
const CALL_LIFE: i64 = 2_000;
const MAX_WAITERS: usize = 64;
const LONGEST_LIST: usize = 2048;

/// Who waits, in order.
struct Queue(Vec<Entry>);

struct Entry {
    since: f64,
    waiter: Vec<u8>,
}

impl Queue {
    /// `queue_of`: all that matches `(%d+) (%x+)`
    fn read(text: &[u8]) -> Self {
        let (mut entries, mut rest) = (Vec::new(), text);
        while let Some(begins) = rest.iter().position(u8::is_ascii_digit) {
            let (since, after) = split(&rest[begins..], u8::is_ascii_digit);
            let (waiter, later) =
                after.strip_prefix(b" ").map_or((&[][..], after), |after| split(after, u8::is_ascii_hexdigit));
            match number(since) {
                Some(since) if !waiter.is_empty() => {
                    entries.push(Entry { since, waiter: waiter.to_vec() });
                    rest = later;
                }
                _ => rest = after,
            }
        }
        Self(entries)
    }

    fn first(&self) -> Option<&[u8]> {
        self.0.first().map(|entry| entry.waiter.as_slice())
    }

    fn leave(&mut self, waiter: &[u8]) -> bool {
        let place = self.0.iter().position(|entry| entry.waiter == waiter);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// True for one that was not there before.
    fn enter(&mut self, waiter: &[u8], since: f64) -> bool {
        let known = self.leave(waiter);
        if self.0.len() >= MAX_WAITERS {
            return false;
        }
        let behind = self.0.iter().rposition(|entry| entry.since <= since);
        self.0.insert(behind.map_or(0, |place| place + 1), Entry { since, waiter: waiter.to_vec() });
        !known
    }
}

/// The bytes for which `kind` holds, from the first one on, and the others.
fn split(bytes: &[u8], kind: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| !kind(byte)).unwrap_or(bytes.len()))
}

impl Votes<'_> {
    /// `name`
    fn name(&self, ballot: usize, what: &str) -> Vec<u8> {
        [b"{", self.locks[ballot].as_slice(), b"}:", what.as_bytes()].concat()
    }

    /// `listed`
    pub(super) fn listed(&self, ballot: usize) -> Option<usize> {
        let line = [b"\n", self.locks[ballot].as_slice(), b"\n"].concat();
        self.waited.as_deref()?.windows(line.len()).position(|window| window == line)
    }

    pub(super) fn read_lines(&mut self) {
        if self.looked_at.is_empty() {
            return;
        }
        let (mut lines, before) = (BTreeMap::new(), self.waited.clone());
        for ballot in self.looked_at.iter().copied() {
            let names = ["queue", "turn"].map(|what| self.name(ballot, what));
            let mut read = texts(self.call.store, &names, self.call.now);
            lines.insert(ballot, [read.remove(0), read.remove(0)]);
        }
        for ballot in lines.iter().filter(|(_, lines)| **lines == [None, None]).map(|(ballot, _)| *ballot) {
            if let (Some(from), Some(waited)) = (self.listed(ballot), &mut self.waited) {
                waited.drain(from + 1..from + 2 + self.locks[ballot].len());
            }
        }
        self.lines = lines;
        let queued = &self.call.keys[2];
        if self.waited.as_deref() == Some(b"\n") {
            self.waited = None;
            self.delete(queued);
        } else if self.waited != before {
            let left = self.call.store.pttl(queued, self.call.now);
            let text = self.waited.clone().unwrap_or_default();
            self.call.store.set(queued, &text, (left >= 0).then(|| self.call.now + left));
        }
    }

    fn queue_of(&self, ballot: usize) -> Queue {
        Queue::read(self.lines.get(&ballot).and_then(|[queue, _]| queue.as_deref()).unwrap_or_default())
    }

    fn turn_of(&self, ballot: usize) -> Option<Vec<u8>> {
        self.lines.get(&ballot).and_then(|[_, turn]| turn.clone())
    }

    fn set(&mut self, key: &[u8], text: &[u8], life: i64) {
        self.call.store.set(key, text, Some(self.call.now + life));
    }

    fn delete(&mut self, key: &[u8]) {
        self.call.store.delete(key, self.call.now);
    }

    fn note(&mut self, ballot: usize) {
        self.looked_at.insert(ballot);
        if ballot < self.pairs {
            self.looked_at.insert(self.releases + ballot);
        }
        if self.waited.as_deref() == Some(b"*") {
            return;
        }
        let known = self.listed(ballot).is_some();
        if !known {
            let mut waited = self.waited.take().unwrap_or_else(|| b"\n".to_vec());
            waited.extend([self.locks[ballot].as_slice(), b"\n"].concat());
            self.waited = Some(if waited.len() > LONGEST_LIST { b"*".to_vec() } else { waited });
        }
        let queued = &self.call.keys[2];
        if !known || !self.noted && self.call.store.pttl(queued, self.call.now) < QUEUE_LIFE {
            let text = self.waited.clone().unwrap_or_default();
            self.set(queued, &text, 2 * QUEUE_LIFE);
        }
        self.noted = true;
    }

    fn write_queue(&mut self, ballot: usize, queue: &Queue) {
        let name = self.name(ballot, "queue");
        if queue.0.is_empty() {
            return self.delete(&name);
        }
        let words = queue.0.iter().map(|Entry { since, waiter }| [whole(*since).as_bytes(), b" ", waiter].concat());
        let words: Vec<_> = words.collect();
        self.note(ballot);
        self.set(&name, &words.join(&b' '), QUEUE_LIFE);
    }

    fn count_entered(&mut self, entered: bool) {
        if entered {
            self.call.count("entered a queue");
        }
    }

    fn tell(&mut self, waiter: &[u8], what: &[u8], ballot: usize) {
        let calls = [self.call.keys[0].as_slice(), b":calls:", waiter].concat();
        let (store, now) = (&mut *self.call.store, self.call.now);
        // Tried, and let be: a key of another type is no list.
        _ = store.push(&calls, &[what, &self.locks[ballot]].concat(), now);
        store.expire(&calls, now + CALL_LIFE, now);
    }

    fn offer(&mut self, ballot: usize, queue: &mut Queue) {
        let first = queue.0.remove(0).waiter;
        self.call.count("offered");
        self.note(ballot);
        self.set(&self.name(ballot, "turn"), &first, RESERVATION_TTL);
        self.tell(&first, b"T", ballot);
        if let Some(second) = queue.first() {
            self.tell(second, b"S", ballot);
        }
    }

    pub(super) fn kept_from(&mut self, ballot: usize, held: bool, since: f64) -> Option<f64> {
        let (mut queue, waits) = (self.queue_of(ballot), since > 0.0);
        let entered = waits && queue.enter(self.waiter, since);
        let (waiter, mut offered) = (self.waiter, false);
        let another = |first: &[u8]| first != waiter || !waits;
        let free_in = if held {
            Some(self.pttl(&self.locks[ballot]))
        } else if let Some(turn) = self.turn_of(ballot) {
            another(&turn).then(|| self.pttl(&self.name(ballot, "turn")))
        } else {
            offered = queue.first().is_some_and(another);
            if offered {
                self.offer(ballot, &mut queue);
            }
            offered.then_some(float(RESERVATION_TTL))
        };
        if free_in.is_some() && (waits || offered) {
            self.write_queue(ballot, &queue);
            self.count_entered(entered);
        }
        free_in
    }

    pub(super) fn end_turn(&mut self, ballot: usize) {
        let mut queue = self.queue_of(ballot);
        if self.turn_of(ballot).is_some() {
            self.delete(&self.name(ballot, "turn"));
        }
        if queue.leave(self.waiter) {
            self.write_queue(ballot, &queue);
        }
    }

    pub(super) fn move_on(&mut self, ballot: usize, place: Option<&[u8]>, free: bool) {
        let (mut queue, mut turn) = (self.queue_of(ballot), self.turn_of(ballot));
        let mut changed = match (place, self.since.get(&ballot)) {
            (_, Some(since)) => {
                self.count_entered(queue.enter(self.waiter, *since));
                true
            }
            (Some(b"leave"), None) => queue.leave(self.waiter),
            _ => false,
        };
        if place == Some(b"leave") && turn.as_deref() == Some(self.waiter) {
            self.delete(&self.name(ballot, "turn"));
            turn = None;
        }
        if free && turn.is_none() && queue.first().is_some() {
            self.offer(ballot, &mut queue);
            changed = true;
        }
        if changed {
            self.write_queue(ballot, &queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_read_as_the_pattern_has_it() {
        let read = |text: &[u8]| Queue::read(text).0.into_iter().map(|entry| entry.waiter).collect::<Vec<_>>();
        assert_eq!(read(b"1 aa 2 bB 30 0c"), [&b"aa"[..], b"bB", b"0c"]);
        assert_eq!(read(b"x 1  aa 2 zz 3 4 ee"), [b"4"], "4 is taken for a waiter");
        assert!(read(b"").is_empty() && read(b"12").is_empty() && read(b"12 ").is_empty());
    }
}
