use std::time::Duration;

use super::commands::{NOT_AN_INTEGER, Session, State, error, integer};
use super::resp::Answer;
use super::store::WrongType;

/// A connection that waits for an element of a list.
pub(super) struct Blocked {
    pub(super) session: u64,
    list: Vec<u8>,
    /// Until when, on the server's clock. `None` for ever.
    until: Option<i64>,
    /// What it waited for, taken out of the list.
    element: Option<Vec<u8>>,
}

/// What a blocked connection sees when it looks.
pub(super) enum Look {
    /// It is blocked no more: this is the answer.
    Done(Answer),
    /// It is to look again after this time, or when it is told.
    Again(Duration),
}

impl State {
    /// `BLPOP list timeout`. Without an answer, the session is blocked.
    pub(super) fn blpop(&mut self, session: &Session, list: &[u8], timeout: &[u8], now: i64) -> Option<Answer> {
        let timeout = match std::str::from_utf8(timeout).ok().and_then(|text| text.parse().ok()).map(millis) {
            Some(Some(timeout)) => timeout,
            Some(None) => return Some(error("ERR timeout is negative")),
            None => return Some(error("ERR timeout is not a float or out of range")),
        };
        match self.pop(list, now) {
            Err(error) => Some(error.into()),
            Ok(Some(element)) => Some(Answer::List(vec![Answer::text(list), Answer::text(element)])),
            Ok(None) => {
                let until = (timeout > 0).then_some(now + timeout);
                self.blocked.push(Blocked { session: session.id, list: list.to_vec(), until, element: None });
                None
            }
        }
    }

    /// Hands what was pushed to those who wait for it, in the order in which they came.
    pub(super) fn serve_blocked(&mut self, now: i64) {
        let mut blocked = std::mem::take(&mut self.blocked);
        for waiting in blocked.iter_mut().filter(|waiting| waiting.element.is_none()) {
            // A key of another type is not what they wait for.
            waiting.element = self.pop(&waiting.list, now).unwrap_or_default();
        }
        self.blocked = blocked;
    }

    /// Whether there is one that has what it waited for, and does not know yet.
    pub(super) fn has_served(&self) -> bool {
        self.blocked.iter().any(|blocked| blocked.element.is_some())
    }

    /// Whether a session is blocked any longer, at `now` of true time.
    pub(super) fn look(&mut self, session: &Session, now: Duration) -> Look {
        const LONG: Duration = Duration::from_secs(3600);

        let now = self.clock.millis(now);
        let Some(place) = self.blocked.iter().position(|blocked| blocked.session == session.id) else {
            return Look::Done(Answer::NoList);
        };
        let blocked = &mut self.blocked[place];
        let answer = match (blocked.element.take(), blocked.until) {
            (Some(element), _) => Answer::List(vec![Answer::text(&blocked.list), Answer::text(element)]),
            (None, Some(until)) if until < now => Answer::NoList,
            (None, Some(until)) => {
                return Look::Again(Duration::from_millis(until.abs_diff(now) + 1).min(LONG));
            }
            (None, None) => return Look::Again(LONG),
        };
        self.blocked.remove(place);
        Look::Done(answer)
    }

    /// Takes the first element of a list.
    pub(super) fn pop(&mut self, list: &[u8], now: i64) -> Result<Option<Vec<u8>>, WrongType> {
        let element = self.store.pop(list, now)?;
        if element.is_some() {
            *self.done.entry("call delivered").or_default() += 1;
        }
        Ok(element)
    }

    /// `LPOP list most`
    pub(super) fn pop_many(&mut self, list: &[u8], most: &[u8], now: i64) -> Result<Answer, WrongType> {
        let Some(most) = integer(most) else { return Ok(error(NOT_AN_INTEGER)) };
        let Ok(most) = usize::try_from(most) else { return Ok(error("ERR value is out of range, must be positive")) };
        let length = self.store.list(list, now)?.len();
        if length == 0 {
            return Ok(Answer::NoList);
        }
        let mut elements = Vec::new();
        for _ in 0..most.min(length) {
            elements.extend(self.pop(list, now)?.map(Answer::text));
        }
        Ok(Answer::List(elements))
    }
}

/// Whole milliseconds, rounded up; `None` if it is negative.
fn millis(seconds: f64) -> Option<i64> {
    let seconds = Duration::try_from_secs_f64(seconds).ok()?;
    i64::try_from(seconds.as_nanos().div_ceil(1_000_000)).ok()
}

/// `LRANGE`: from one place to another, both included; negative ones are counted from the end.
pub(super) fn range<'a>(elements: impl ExactSizeIterator<Item = &'a Vec<u8>>, from: i64, to: i64) -> Answer {
    let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    let place = |place: i64| if place < 0 { length + place } else { place };
    let (from, to) = (place(from).max(0), place(to));
    let within = |at: &usize| i64::try_from(*at).is_ok_and(|at| from <= at && at <= to);
    let elements = elements.enumerate().filter(|(at, _)| within(at));
    Answer::List(elements.map(|(_, element)| Answer::text(element)).collect())
}
