use std::time::Duration;

use super::commands::{Session, State};
use super::resp::Reply;

/// A connection that waits for an element of a list.
pub(super) struct Blocked {
    pub(super) session: u64,
    list: Vec<u8>,
    /// Until when, on the server's clock. `None` without a timeout.
    until: Option<i64>,
    /// The element it waited for, taken out of the list.
    element: Option<Vec<u8>>,
}

/// What a blocked connection finds when it is polled.
pub(super) enum Look {
    /// It is no longer blocked: this is the reply.
    Done(Reply),
    /// It has to poll again after this time, or when it is notified.
    Again(Duration),
}

impl State {
    /// `BLPOP list timeout`. Returns `None` if the session is now blocked.
    pub(super) fn blpop(&mut self, session: &Session, list: &[u8], timeout: &[u8], now: i64) -> Option<Reply> {
        let timeout = match std::str::from_utf8(timeout).ok().and_then(|text| text.parse().ok()).map(millis) {
            Some(Some(timeout)) => timeout,
            Some(None) => return Some(Reply::error("ERR timeout is negative")),
            None => return Some(Reply::error("ERR timeout is not a float or out of range")),
        };
        match self.database.pop(list, now) {
            Err(error) => Some(error.into()),
            Ok(Some(element)) => Some(Reply::List(vec![Reply::text(list), Reply::text(element)])),
            Ok(None) => {
                let until = (timeout > 0).then_some(now + timeout);
                self.blocked.push(Blocked { session: session.id, list: list.to_vec(), until, element: None });
                None
            }
        }
    }

    /// Hands the elements that were pushed to the connections that wait for them, first come, first served.
    pub(super) fn serve_blocked(&mut self, now: i64) {
        let mut blocked = std::mem::take(&mut self.blocked);
        for waiting in blocked.iter_mut().filter(|waiting| waiting.element.is_none()) {
            // A key of another type does not unblock anyone.
            waiting.element = self.database.pop(&waiting.list, now).unwrap_or_default();
        }
        self.blocked = blocked;
    }

    /// Whether a blocked connection has its element and was not notified so far.
    pub(super) fn has_served(&self) -> bool {
        self.blocked.iter().any(|blocked| blocked.element.is_some())
    }

    /// Whether a session is still blocked, at `now` of true time.
    pub(super) fn look(&mut self, session: &Session, now: Duration) -> Look {
        const LONG: Duration = Duration::from_secs(3600);

        let now = self.clock.millis(now);
        let Some(place) = self.blocked.iter().position(|blocked| blocked.session == session.id) else {
            return Look::Done(Reply::NoList);
        };
        let blocked = &mut self.blocked[place];
        let reply = match (blocked.element.take(), blocked.until) {
            (Some(element), _) => Reply::List(vec![Reply::text(&blocked.list), Reply::text(element)]),
            (None, Some(until)) if until < now => Reply::NoList,
            (None, Some(until)) => {
                return Look::Again(Duration::from_millis(until.abs_diff(now) + 1).min(LONG));
            }
            (None, None) => return Look::Again(LONG),
        };
        self.blocked.remove(place);
        Look::Done(reply)
    }
}

/// Whole milliseconds, rounded up; `None` if it is negative.
fn millis(seconds: f64) -> Option<i64> {
    let seconds = Duration::try_from_secs_f64(seconds).ok()?;
    i64::try_from(seconds.as_nanos().div_ceil(1_000_000)).ok()
}
