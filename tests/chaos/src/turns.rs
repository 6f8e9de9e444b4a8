//! Grants, as turns: one that was taken from the servers, and those to whom the lock was handed over inside the process.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_history::by_resource;

use super::grants::{Grant, Process};

/// The most holders of one turn, and how long after its beginning the lock is handed over at most: the engine's.
const LONGEST_RUN: usize = 16;
const RUN_TIME: Duration = Duration::from_millis(20);

/// One turn of a process, in the order of its holders. There is always a first.
pub(super) struct Turn<'a> {
    pub(super) first: &'a Grant,
    /// Those who were handed the lock, each by the one before.
    pub(super) others: Vec<&'a Grant>,
}

impl Turn<'_> {
    pub(super) fn process(&self) -> Process {
        self.first.holder.process
    }

    pub(super) fn last(&self) -> &Grant {
        self.others.last().unwrap_or(&self.first)
    }

    /// Whether a grant was handed over by the last of this turn. It has the next token, which is reserved for that: the servers
    /// count on behind it, and from the time of day if that is more.
    fn goes_on_with(&self, next: &Grant) -> bool {
        let last = self.last();
        let in_line = last.holder.in_line && next.holder.in_line;
        last.holder.process == next.holder.process && in_line && last.token + 1 == next.token
    }
}

/// The turns of each resource, in the order of their tokens.
pub(super) fn turns(grants: &[Grant]) -> BTreeMap<&str, Vec<Turn<'_>>> {
    let resources = by_resource(grants, |grant| grant.token);
    let turns = resources.into_iter().map(|(resource, grants)| {
        let mut turns: Vec<Turn<'_>> = Vec::new();
        for grant in grants {
            match turns.last_mut().filter(|turn| turn.goes_on_with(grant)) {
                Some(turn) => turn.others.push(grant),
                None => turns.push(Turn { first: grant, others: Vec::new() }),
            }
        }
        (resource, turns)
    });
    turns.collect()
}

/// A process does not keep the lock to itself for longer than it may.
pub(super) fn turns_end(grants: &[Grant]) -> Vec<String> {
    let mut violations = Vec::new();
    for turn in turns(grants).into_values().flatten() {
        let (first, holders) = (turn.first, 1 + turn.others.len());
        if holders > LONGEST_RUN {
            violations.push(format!("a lock went through {holders} hands in one process: {first:?}"));
        }
        let holders = std::iter::once(first).chain(turn.others.iter().copied());
        for (holder, next) in holders.zip(&turn.others) {
            // The release is written down before it is begun, and the grant after it was made.
            if let Some(late) = holder.ended.filter(|ended| ended.since(first.granted) >= RUN_TIME) {
                let after = late.since(first.granted);
                violations.push(format!("a lock was handed over {after:?} after it was taken: {first:?}, {next:?}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    /// Held for some milliseconds.
    fn grant(token: u64, service: usize, granted: u64, ended: u64) -> Grant {
        let moment = |millis| Moment(millis * 1_000);
        let times = [0, granted, granted + 900].map(moment);
        let ended = Some(moment(ended));
        Grant { ended, released: ended, ..Grant::new(("r", token), Holder::of((service, 0)), times) }
    }

    fn lengths(grants: &[Grant]) -> Vec<usize> {
        turns(grants)["r"].iter().map(|turn| 1 + turn.others.len()).collect()
    }

    #[test]
    fn what_has_the_next_token_in_the_same_process_was_handed_over() {
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(9, 1, 30, 40), grant(8, 0, 12, 15)]), [2, 1]);
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(8, 1, 12, 15)]), [1, 1], "another process");
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(9, 0, 12, 15)]), [1, 1], "not the next token");
        let mut past_the_line = grant(8, 0, 12, 15);
        past_the_line.holder.in_line = false;
        assert_eq!(lengths(&[grant(7, 0, 10, 12), past_the_line]), [1, 1]);
    }

    #[test]
    fn a_turn_that_does_not_end_is_found() {
        let run = |holders: u64| (0..holders).map(|n| grant(n, 0, 10 + n, 11 + n)).collect::<Vec<_>>();
        assert_eq!(turns_end(&run(16)), Vec::<String>::new());
        assert_eq!(turns_end(&run(17)).len(), 1);
        assert_eq!(turns_end(&[grant(7, 0, 10, 29), grant(8, 0, 30, 99)]), Vec::<String>::new());
        assert_eq!(turns_end(&[grant(7, 0, 10, 30), grant(8, 0, 31, 35)]).len(), 1);
    }
}
