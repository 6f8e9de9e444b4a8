//! The waits of a history: acquisitions that were willing to wait.

use std::collections::HashMap;
use std::time::Duration;

use super::grants::Process;
use super::history::{Event, Record};
use super::windows::Window;
use lock_history::Moment;

/// An acquisition that was willing to wait.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) resource: String,
    pub(super) process: Process,
    /// Whether it only wants to read.
    pub(super) reads: bool,
    /// When it began, at the latest.
    pub(super) began: Moment,
    /// When it was over, at the latest: granted, rejected, or dropped. If its process was killed before that, the last
    /// record of the process.
    pub(super) ended: Moment,
    /// Whether its process was killed before it was over.
    pub(super) killed: bool,
    /// How long it was willing to wait.
    pub(super) max_wait: Duration,
    /// Whether it was granted the lock.
    pub(super) granted: bool,
    /// Whether its caller dropped it.
    pub(super) dropped: bool,
}

impl Wait {
    /// Whether it was still open at a moment at which its process was alive.
    pub(super) fn was_open_at(&self, moment: Moment) -> bool {
        self.began <= moment && (self.killed || moment < self.ended)
    }

    /// The part of it that lies in a window.
    pub(super) fn within(&self, window: Window) -> Option<Window> {
        window.after(self.began)?.before(self.ended)
    }

    /// The part of it that would lie in a window if it were never granted.
    pub(super) fn longest_within(&self, window: Window) -> Option<Window> {
        let until = if self.granted { self.began.plus(self.max_wait) } else { self.ended };
        window.after(self.began)?.before(until)
    }
}

/// The waits in the history of one process.
pub(super) fn waits(history: &[Record]) -> Vec<Wait> {
    let Some(Record { event: Event::Started { service, generation }, .. }) = history.first() else { return Vec::new() };
    let (process, last_record) = ((*service, *generation), history[history.len() - 1].at);
    let mut waits: Vec<Wait> = Vec::new();
    let mut open: HashMap<u64, usize> = HashMap::new();
    for Record { at, event } in history {
        let (attempt, granted, dropped) = match event {
            Event::Attempt { attempt, resource, wait, reads } if !wait.is_zero() => {
                open.insert(*attempt, waits.len());
                let (resource, reads, began, max_wait) = (resource.clone(), *reads, *at, *wait);
                let (ended, killed, granted, dropped) = (last_record, true, false, false);
                waits.push(Wait { resource, process, reads, began, ended, killed, max_wait, granted, dropped });
                continue;
            }
            Event::Granted { attempt, .. } => (attempt, true, false),
            Event::Rejected { attempt, .. } => (attempt, false, false),
            Event::Dropped { attempt } => (attempt, false, true),
            _ => continue,
        };
        if let Some(index) = open.remove(attempt) {
            waits[index] = Wait { ended: *at, killed: false, granted, dropped, ..waits[index].clone() };
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_grant_or_with_the_last_record_of_its_process() {
        let attempt = |attempt, wait| {
            let wait = Duration::from_secs(wait);
            Event::Attempt { attempt, resource: "r".into(), wait, reads: false }
        };
        let events = [
            (1, Event::Started { service: 1, generation: 2 }),
            (2, attempt(1, 6)),
            (3, attempt(2, 0)),
            (4, attempt(3, 6)),
            (5, Event::Granted { attempt: 1, resource: "r".into(), token: 1, until: Moment(99), reads: false }),
            (6, attempt(4, 6)),
            (7, Event::Dropped { attempt: 4 }),
            (8, Event::Logged { name: "lock.lost".into(), fields: String::new() }),
        ];
        let waits = waits(&events.map(|(at, event)| Record { at: Moment(at), event }));
        let of = |wait: &Wait| (wait.began.0, wait.ended.0, wait.killed, wait.granted, wait.dropped);
        let expected = [(2, 5, false, true, false), (4, 8, true, false, false), (6, 7, false, false, true)];
        assert_eq!(waits.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(waits[1].was_open_at(Moment(10)), "it was killed later");
        assert!(!waits[0].was_open_at(Moment(5)));
    }
}
