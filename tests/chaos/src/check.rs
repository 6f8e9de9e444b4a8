//! What must hold of a history, whatever was hurt, beside what must hold of any grants. Each check returns what it found against the promises.

use std::collections::HashSet;

use lock_history::check::{self, Violation};

use super::grants::Grant;
use super::history::{Event, Record, TURNED_AWAY, Write};
use super::ledger::Row;

/// What the grants break of the promises.
pub(super) fn grants_keep_the_promises(grants: &[Grant]) -> Vec<String> {
    // A grant that was over before its holder saw it was never held: it was granted at some time before that.
    let held = || grants.iter().filter(|grant| grant.was_held());
    let checks = [
        check::tokens_are_unique(grants),
        check::tokens_are_ordered(grants),
        check::tokens_grow_from_holder_to_holder(held()),
        check::validity_does_not_overlap(held()),
    ];
    checks.iter().flatten().map(Violation::to_string).collect()
}

/// No update of a counter is lost, and all that holders believe to have written is there.
pub(super) fn no_update_is_lost(grants: &[Grant], counters: &[(String, u64)], rows: &[Row]) -> Vec<String> {
    let mut violations = Vec::new();
    for (resource, value) in counters {
        let writes: Vec<_> = rows.iter().filter(|row| row.resource == *resource).map(|row| row.write).collect();
        violations.extend(lock_history::no_update_is_lost(resource, *value, &writes));
    }
    let key = |resource: &str, token: u64| (resource.to_owned(), token);
    let written: HashSet<_> = rows.iter().map(|row| key(&row.resource, row.write.token)).collect();
    // A holder that was killed while it wrote does not know whether it did.
    let (mut tried, mut known) = (HashSet::new(), HashSet::new());
    for grant in grants {
        if grant.holder.wrote == Some(Write::Accepted) {
            known.insert(key(&grant.resource, grant.token));
        }
        if grant.holder.writing {
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
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    /// A grant whose acquisition took one unit, held up to `claimed` or `ended`, that wrote.
    fn grant(token: u64, granted: u64, claimed: u64, ended: Option<u64>) -> Grant {
        let (wrote, ended) = (Some(Write::Accepted), ended.map(Moment));
        let holder = Holder { writing: true, wrote, ..Holder::of((0, 0)) };
        let granted = Grant::new(("r", token), holder, [granted - 1, granted, claimed].map(Moment));
        Grant { ended, released: ended, ..granted }
    }

    fn row(token: u64, value: u64) -> Row {
        Row { resource: "r".into(), write: lock_history::Write { token, value } }
    }

    /// What is found of two grants.
    fn found(one: Grant, other: Grant) -> usize {
        grants_keep_the_promises(&[one, other]).len()
    }

    #[test]
    fn a_token_that_was_granted_twice_is_found() {
        assert_eq!(found(grant(1, 10, 20, None), grant(2, 30, 40, None)), 0);
        assert_eq!(found(grant(1, 10, 20, None), grant(1, 30, 40, None)), 3, "not unique, not larger, nor growing");
        let other = Grant { resource: "other".into(), ..grant(1, 30, 40, None) };
        assert_eq!(found(grant(1, 10, 20, None), other), 0);
    }

    #[test]
    fn a_token_that_is_smaller_than_one_of_before_is_found() {
        assert_eq!(found(grant(2, 10, 20, None), grant(1, 30, 40, None)), 2, "not larger, nor growing");
        // The second began before the first was complete: it may come before it, if it was not valid after it.
        let overlapping = Grant { began: Moment(9), ..grant(1, 30, 40, Some(30)) };
        assert_eq!(found(grant(2, 10, 20, None), overlapping), 0);
    }

    #[test]
    fn a_holder_whose_token_is_smaller_is_found_although_it_waited() {
        let waited = |token| Grant { began: Moment(9), ..grant(token, 30, 40, None) };
        assert_eq!(found(grant(2, 10, 20, None), waited(1)), 1);
        assert_eq!(found(grant(2, 10, 20, None), waited(2)), 2, "and not unique");
        assert_eq!(found(grant(2, 10, 20, None), waited(3)), 0);
        assert_eq!(found(grant(2, 10, 20, None), Grant { ended: Some(Moment(30)), ..waited(1) }), 0, "never held");
    }

    #[test]
    fn two_valid_holders_are_found() {
        assert_eq!(found(grant(1, 10, 30, None), grant(2, 20, 40, None)), 1, "the claim of the first stands");
        assert_eq!(found(grant(1, 10, 30, Some(15)), grant(2, 20, 40, None)), 0, "it was released");
        assert_eq!(found(grant(1, 10, 30, Some(50)), grant(2, 30, 40, None)), 0, "it was released after its end");
        assert_eq!(found(grant(1, 10, 90, None), grant(2, 20, 15, None)), 0, "it was over before it was seen");
        let third = [grant(1, 10, 90, None), grant(2, 20, 30, None), grant(3, 40, 50, None)];
        assert_eq!(grants_keep_the_promises(&third).len(), 2, "the long claim reaches over the short one");
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
        let mut killed = grant(1, 10, 20, None);
        killed.holder.wrote = None;
        for rows in [vec![], vec![row(1, 1)]] {
            let counters = [("r".into(), u64::try_from(rows.len()).unwrap())];
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
