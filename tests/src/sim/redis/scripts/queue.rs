use super::Call;
use super::lua::{Broken, number, whole};

/// How long queue, turn and calls live, in milliseconds.
const QUEUE_LIFE: &[u8] = b"10000";
const TURN_LIFE: i64 = 100;
const CALL_LIFE: i64 = 2000;
const MAX_WAITERS: usize = 64;

/// Who waits, in order.
struct Queue(Vec<Entry>);

struct Entry {
    /// Nil, if that is what came for a number.
    since: Option<f64>,
    waiter: Vec<u8>,
}

impl Queue {
    /// `read_queue`: all that matches `(%d+) (%x+)`
    fn read(text: Option<&[u8]>) -> Self {
        let (mut entries, mut rest) = (Vec::new(), text.unwrap_or_default());
        while let Some(begins) = rest.iter().position(u8::is_ascii_digit) {
            let (since, after) = split(&rest[begins..], u8::is_ascii_digit);
            let (waiter, later) = after.strip_prefix(b" ").map_or((&[][..], after), |after| split(after, hex));
            if waiter.is_empty() {
                rest = after;
            } else {
                entries.push(Entry { since: number(since), waiter: waiter.to_vec() });
                rest = later;
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
    fn enter(&mut self, waiter: &[u8], since: Option<f64>) -> Result<bool, Broken> {
        let known = self.leave(waiter);
        if self.0.len() >= MAX_WAITERS {
            return Ok(false);
        }
        let mut place = self.0.len();
        while place > 0 {
            match (self.0[place - 1].since, since) {
                (Some(other), Some(since)) if other > since => place -= 1,
                (Some(_), Some(_)) => break,
                _ => {
                    return Err(Broken::on_line(
                        "queue[place - 1].since > since",
                        "attempt to compare nil with number",
                    ));
                }
            }
        }
        self.0.insert(place, Entry { since, waiter: waiter.to_vec() });
        Ok(!known)
    }
}

fn hex(byte: &u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// The bytes for which `kind` holds, from the first one on, and the others.
fn split(bytes: &[u8], kind: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| !kind(byte)).unwrap_or(bytes.len()))
}

impl Call<'_> {
    fn enter(&mut self, queue: &mut Queue, waiter: &[u8], since: Option<f64>) -> Result<(), Broken> {
        if queue.enter(waiter, since)? {
            self.count("entered a queue");
        }
        Ok(())
    }

    fn write_queue(&mut self, at: usize, queue: &Queue) -> Result<(), Broken> {
        if queue.0.is_empty() {
            return self.delete(at);
        }
        let mut words = Vec::new();
        for Entry { since, waiter } in &queue.0 {
            let Some(since) = since else {
                let error = "bad argument #2 to 'format' (number expected, got nil)";
                return Err(Broken::on_line("string.format('%.0f %s'", error));
            };
            words.push([whole(*since).as_bytes(), b" ", waiter].concat());
        }
        self.set(at, &words.join(&b' '), QUEUE_LIFE)
    }

    fn tell(&mut self, waiter: &[u8], what: &[u8], lock: &[u8]) -> Result<(), Broken> {
        let calls = [self.key(0)?, b":calls:", waiter].concat();
        // Tried, and let be.
        _ = self.store.push(&calls, &[what, lock].concat(), self.now);
        self.store.expire(&calls, self.now + CALL_LIFE, self.now);
        Ok(())
    }

    fn offer(&mut self, lock: usize, turn: usize, queue: &mut Queue) -> Result<(), Broken> {
        let first = queue.0.remove(0).waiter;
        let second = queue.first().map(<[u8]>::to_vec);
        self.count("offered");
        self.set(turn, &first, TURN_LIFE.to_string().as_bytes())?;
        self.tell(&first, b"T", self.key(lock)?)?;
        match second {
            Some(second) => self.tell(&second, b"S", self.key(lock)?),
            None => Ok(()),
        }
    }

    pub(super) fn kept_from(
        &mut self,
        at: usize,
        held: bool,
        queue: Option<&[u8]>,
        turn: Option<&[u8]>,
        since: Option<f64>,
    ) -> Result<Option<i64>, Broken> {
        let mut queue = Queue::read(queue);
        let Some(since) = since else {
            return Err(Broken::on_line("since > 0, false", "attempt to compare number with nil"));
        };
        let (waits, waiter) = (since > 0.0, self.waiter()?.to_vec());
        if waits {
            self.enter(&mut queue, &waiter, Some(since))?;
        }
        let (mut free_in, mut offered) = (None, false);
        if held {
            free_in = Some(self.pttl(at)?);
        } else if let Some(turn) = turn {
            if turn != waiter || !waits {
                free_in = Some(self.pttl(at + 3)?);
            }
        } else if queue.first().is_some_and(|first| first != waiter || !waits) {
            self.offer(at, at + 3, &mut queue)?;
            (free_in, offered) = (Some(TURN_LIFE), true);
        }
        if free_in.is_some() && (waits || offered) {
            self.write_queue(at + 2, &queue)?;
        }
        Ok(free_in)
    }

    pub(super) fn end_turn(&mut self, at: usize, queue: Option<&[u8]>, turn: bool) -> Result<(), Broken> {
        if turn {
            self.delete(at + 3)?;
        }
        let mut queue = Queue::read(queue);
        queue.leave(self.waiter()?);
        self.write_queue(at + 2, &queue)
    }

    pub(super) fn move_on(
        &mut self,
        at: usize,
        free: bool,
        queue: Option<&[u8]>,
        mut turn: Option<Vec<u8>>,
        place: &[u8],
    ) -> Result<(), Broken> {
        let (mut queue, mut changed) = (Queue::read(queue), !place.is_empty());
        let waiter = self.waiter()?.to_vec();
        if place == b"leave" {
            queue.leave(&waiter);
            if turn.as_ref() == Some(&waiter) {
                self.delete(at + 2)?;
                turn = None;
            }
        } else if changed {
            self.enter(&mut queue, &waiter, number(place))?;
        }
        if free && turn.is_none() && queue.first().is_some() {
            self.offer(at, at + 2, &mut queue)?;
            changed = true;
        }
        if changed {
            self.write_queue(at + 1, &queue)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_read_as_the_pattern_has_it() {
        let read = |text: &[u8]| Queue::read(Some(text)).0.into_iter().map(|entry| entry.waiter).collect::<Vec<_>>();
        assert_eq!(read(b"1 aa 2 bB 30 0c"), [&b"aa"[..], b"bB", b"0c"]);
        assert_eq!(read(b"x 1  aa 2 zz 3 4 ee"), [b"4"], "4 is taken for a waiter");
        assert!(read(b"").is_empty() && read(b"12").is_empty() && read(b"12 ").is_empty());
    }
}
