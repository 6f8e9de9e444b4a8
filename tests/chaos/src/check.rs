//! What must hold of a history, whatever was hurt. Each check returns what it found against the promises.

use std::collections::HashSet;

use super::grants::{Grant, by_resource};
use super::history::{Event, Record, TURNED_AWAY};
use super::ledger::Row;

/// Tokens of one resource are unique.
pub(super) fn tokens_are_unique(grants: &[Grant]) -> Vec<String> {
    let pairs = by_resource(grants, |grant| grant.token).into_values().flat_map(|grants| {
        let twice = |pair: &[&Grant]| (pair[0].token == pair[1].token).then(|| (pair[0].clone(), pair[1].clone()));
        grants.windows(2).filter_map(twice).collect::<Vec<_>>()
    });
    pairs.map(|(one, other)| format!("a token was granted twice: {one:?} and {other:?}")).collect()
}

/// If one acquisition completed before another began, its token is smaller.
pub(super) fn tokens_are_ordered(grants: &[Grant]) -> Vec<String> {
    let mut violations = Vec::new();
    for (resource, completed) in by_resource(grants, |grant| grant.granted) {
        let mut completed = completed.into_iter().peekable();
        let mut largest: Option<&Grant> = None;
        for grant in &by_resource(grants, |grant| grant.began)[resource] {
            while let Some(before) = completed.next_if(|before| before.granted < grant.began) {
                if largest.is_none_or(|largest| largest.token < before.token) {
                    largest = Some(before);
                }
            }
            if let Some(largest) = largest.filter(|largest| largest.token >= grant.token) {
                violations.push(format!("a token is not larger than one of before: {grant:?} after {largest:?}"));
            }
        }
    }
    violations
}

/// Each holder has a larger token than the one before it, also where it waited already when that one was granted the lock, or
/// was handed the lock by it: the order in which they were valid is the order of their tokens.
pub(super) fn tokens_grow_from_holder_to_holder(grants: &[Grant]) -> Vec<String> {
    let mut violations = Vec::new();
    for grants in by_resource(grants, |grant| grant.granted).into_values() {
        // What was over before its holder saw it was granted at some time before that.
        let held: Vec<&Grant> = grants.into_iter().filter(|grant| grant.granted < grant.ends()).collect();
        for pair in held.windows(2).filter(|pair| pair[0].token >= pair[1].token) {
            violations
                .push(format!("a holder has no larger token than the one before: {:?} after {:?}", pair[1], pair[0]));
        }
    }
    violations
}

/// No two holders are valid at once.
pub(super) fn validity_does_not_overlap(grants: &[Grant]) -> Vec<String> {
    let mut violations = Vec::new();
    for grants in by_resource(grants, |grant| grant.granted).into_values() {
        let mut last: Option<&Grant> = None;
        // A grant that was over before its holder saw it was never held.
        for grant in grants.into_iter().filter(|grant| grant.granted < grant.ends()) {
            if let Some(last) = last.filter(|last| last.ends() > grant.granted) {
                let both = last.ends().min(grant.ends()).since(grant.granted);
                violations.push(format!("two valid holders for {both:?}: {last:?} and {grant:?}"));
            }
            if last.is_none_or(|last| last.ends() < grant.ends()) {
                last = Some(grant);
            }
        }
    }
    violations
}

/// No update of a counter is lost: it counts the lines of the append-only table, which were written one after the other, each
/// with a larger token than the one before; and all that holders believe to have written is there.
pub(super) fn no_update_is_lost(grants: &[Grant], counters: &[(String, i64)], rows: &[Row]) -> Vec<String> {
    let mut violations = Vec::new();
    for (resource, value) in counters {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.resource == *resource).collect();
        if usize::try_from(*value) != Ok(rows.len()) {
            violations.push(format!("updates of {resource} were lost: it is {value} after {} writes", rows.len()));
        }
        let before = std::iter::once(0).chain(rows.iter().map(|row| row.value));
        for (before, row) in before.zip(&rows).filter(|(before, row)| row.value != before + 1) {
            violations.push(format!("an update was lost: {row:?} was written over {before}"));
        }
        for pair in rows.windows(2).filter(|pair| pair[0].token >= pair[1].token) {
            violations.push(format!("a token wrote after a larger one: {:?} after {:?}", pair[1], pair[0]));
        }
    }
    let key = |resource: &str, token: u64| (resource.to_owned(), token);
    let written: HashSet<_> = rows.iter().map(|row| key(&row.resource, row.token)).collect();
    // A holder that was killed while it wrote does not know whether it did.
    let (mut tried, mut known) = (HashSet::new(), HashSet::new());
    for grant in grants {
        if grant.wrote == Some(super::history::Write::Accepted) {
            known.insert(key(&grant.resource, grant.token));
        }
        if grant.writing {
            tried.insert(key(&grant.resource, grant.token));
        }
    }
    violations.extend(known.difference(&written).map(|write| format!("a write is not there: {write:?}")));
    violations.extend(written.difference(&tried).map(|write| format!("nobody wrote this: {write:?}")));
    violations
}

/// A manager that is open tells nobody that it was closed.
pub(super) fn an_open_manager_turns_nobody_away(histories: &[Vec<Record>]) -> Vec<String> {
    let mut violations = Vec::new();
    for history in histories {
        let open = history.iter().take_while(|record| record.event != Event::Closing);
        let turned_away = |event: &Event| matches!(event, Event::Rejected { kind, .. } if kind == TURNED_AWAY);
        let records = open.filter(|record| turned_away(&record.event));
        violations.extend(records.map(|record| format!("a manager that was open said that it was closed: {record:?}")));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::clock::Moment;
    use super::super::history::Write;
    use super::*;

    /// A grant whose acquisition took one unit, held up to `claimed` or `ended`, that wrote.
    fn grant(token: u64, granted: u64, claimed: u64, ended: Option<u64>) -> Grant {
        let (wrote, ended) = (Some(Write::Accepted), ended.map(Moment));
        let granted = Grant::new(("r", token), (0, 0), [granted - 1, granted, claimed].map(Moment));
        Grant { ended, released: ended, writing: true, wrote, ..granted }
    }

    fn row(token: u64, value: i64) -> Row {
        Row { resource: "r".into(), token, value }
    }

    #[test]
    fn a_token_that_was_granted_twice_is_found() {
        assert_eq!(tokens_are_unique(&[grant(1, 10, 20, None), grant(2, 30, 40, None)]), Vec::<String>::new());
        assert_eq!(tokens_are_unique(&[grant(1, 10, 20, None), grant(1, 30, 40, None)]).len(), 1);
        let other = Grant { resource: "other".into(), ..grant(1, 30, 40, None) };
        assert_eq!(tokens_are_unique(&[grant(1, 10, 20, None), other]), Vec::<String>::new());
    }

    #[test]
    fn a_token_that_is_smaller_than_one_of_before_is_found() {
        assert_eq!(tokens_are_ordered(&[grant(2, 10, 20, None), grant(1, 30, 40, None)]).len(), 1);
        assert_eq!(tokens_are_ordered(&[grant(1, 10, 20, None), grant(2, 30, 40, None)]), Vec::<String>::new());
        // The second began before the first was complete: it may come before it.
        let overlapping = Grant { began: Moment(9), ..grant(1, 30, 40, None) };
        assert_eq!(tokens_are_ordered(&[grant(2, 10, 20, None), overlapping]), Vec::<String>::new());
    }

    #[test]
    fn a_holder_whose_token_is_smaller_is_found_although_it_waited() {
        let waited = |token| Grant { began: Moment(9), ..grant(token, 30, 40, None) };
        let smaller = |one, other| tokens_grow_from_holder_to_holder(&[one, other]).len();
        assert_eq!(smaller(grant(2, 10, 20, None), waited(1)), 1);
        assert_eq!(smaller(grant(2, 10, 20, None), waited(2)), 1);
        assert_eq!(smaller(grant(2, 10, 20, None), waited(3)), 0);
        assert_eq!(smaller(grant(2, 10, 20, None), Grant { ended: Some(Moment(30)), ..waited(1) }), 0, "never held");
    }

    #[test]
    fn two_valid_holders_are_found() {
        let overlap = |one, other| validity_does_not_overlap(&[one, other]).len();
        assert_eq!(overlap(grant(1, 10, 30, None), grant(2, 20, 40, None)), 1, "the claim of the first stands");
        assert_eq!(overlap(grant(1, 10, 30, Some(15)), grant(2, 20, 40, None)), 0, "it was released");
        assert_eq!(overlap(grant(1, 10, 30, Some(50)), grant(2, 30, 40, None)), 0, "it was released after its end");
        assert_eq!(overlap(grant(1, 10, 90, None), grant(2, 20, 15, None)), 0, "it was over before it was seen");
        let third =
            validity_does_not_overlap(&[grant(1, 10, 90, None), grant(2, 20, 30, None), grant(3, 40, 50, None)]);
        assert_eq!(third.len(), 2, "the long claim reaches over the short one");
    }

    #[test]
    fn a_lost_update_is_found() {
        let grants = [grant(1, 10, 20, None), grant(2, 30, 40, None)];
        let lost = |value, rows: &[Row]| no_update_is_lost(&grants, &[("r".into(), value)], rows);
        assert_eq!(lost(2, &[row(1, 1), row(2, 2)]), Vec::<String>::new());
        assert_eq!(lost(1, &[row(1, 1), row(2, 1)]).len(), 2, "the counter, and the write that did not see the other");
        assert_eq!(lost(2, &[row(2, 1), row(1, 2)]).len(), 1, "the smaller token came later");
        assert_eq!(lost(1, &[row(1, 1)]).len(), 1, "a write that was acknowledged is not there");
        assert_eq!(lost(3, &[row(1, 1), row(2, 2), row(3, 3)]).len(), 1, "nobody was granted this token");
    }

    #[test]
    fn a_write_that_nobody_lived_to_see_may_be_there_or_not() {
        let killed = Grant { wrote: None, ..grant(1, 10, 20, None) };
        for rows in [vec![], vec![row(1, 1)]] {
            let counters = [("r".into(), i64::try_from(rows.len()).unwrap())];
            assert_eq!(no_update_is_lost(std::slice::from_ref(&killed), &counters, &rows), Vec::<String>::new());
        }
    }

    #[test]
    fn a_rejection_by_a_manager_that_is_closed_is_found_before_it_is_and_not_after() {
        let rejected = |kind: &str| Event::Rejected { attempt: 1, resource: "r".into(), kind: kind.into() };
        let found = |events: [Event; 2]| {
            let history = events.map(|event| Record { at: Moment(1), event }).to_vec();
            an_open_manager_turns_nobody_away(&[history]).len()
        };
        assert_eq!(found([rejected(TURNED_AWAY), Event::Closing]), 1);
        assert_eq!(found([Event::Closing, rejected(TURNED_AWAY)]), 0);
        assert_eq!(found([rejected("contended"), Event::Closing]), 0);
    }
}
