//! Safety: what must hold of every history, beside the checks of `lock_history`. Each check returns the violations that
//! it found.

use std::collections::HashSet;

use lock_history::{
    Access, Eviction, Violation, adoption, check, no_write_follows_a_larger_claim, permits, the_evicted_do_not_renew,
};

use super::MAX_TTL;
use super::grants::{Grant, Holder};
use super::history::{Event, Record, SHUTTING_DOWN, Write};
use super::kind::Kind;
use super::ledger::Row;

/// A violation, and the kinds of the two locks that it is about.
pub(super) type Breach = (String, [Kind; 2]);

/// The violations of exclusion, of the numbers of permits, of token order, and of what holds for evicted and for adopted locks.
pub(super) fn grants_keep_the_promises(grants: &[Grant], evictions: &[Eviction]) -> Vec<Breach> {
    // A lease that was over before its holder saw it was never held: it was granted at some time before that.
    let held = || grants.iter().filter(|grant| grant.was_held());
    let forced: Vec<Grant> = grants.iter().filter(|grant| grant.holder.kind == Kind::Force).cloned().collect();
    let mut violations = check::tokens_are_ordered(grants);
    violations.extend(check::tokens_grow_from_holder_to_holder(held()));
    violations.extend(check::validity_does_not_overlap(held()));
    violations.retain(|violation| !evictions.iter().any(|eviction| eviction.excuses(violation, MAX_TTL)));
    violations.extend(check::tokens_are_unique(grants));
    violations.extend(permits::no_more_hold_than_there_are_permits(held(), super::permits));
    violations.extend(the_evicted_do_not_renew(held(), evictions, &forced, MAX_TTL));
    violations.extend(adoption::ends_with_the_key_of_its_holder(grants, MAX_TTL));
    let kinds = |violation: &Violation<'_, Holder>| [violation.earlier.holder.kind, violation.later.holder.kind];
    violations.iter().map(|violation| (violation.to_string(), kinds(violation))).collect()
}

/// As soon as the token of a forced release has claimed the fence, the evicted holder is refused.
pub(super) fn the_evicted_do_not_write(grants: &[Grant]) -> Vec<String> {
    let access =
        |grant: &Grant, began, done| Access { resource: grant.resource.clone(), token: grant.token, began, done };
    let wrote = |grant: &&Grant| grant.holder.wrote == Some(Write::Accepted);
    let writes: Vec<Access> = (grants.iter().filter(wrote))
        .filter_map(|grant| grant.holder.writing.map(|began| access(grant, began, began)))
        .collect();
    let claims: Vec<Access> = (grants.iter())
        .filter_map(|grant| grant.holder.claimed.map(|claimed| access(grant, grant.began, claimed)))
        .collect();
    no_write_follows_a_larger_claim(&writes, &claims)
}

/// No update of a counter is lost, and every acknowledged write is there.
pub(super) fn no_update_is_lost(grants: &[Grant], counters: &[(String, u64)], rows: &[Row]) -> Vec<String> {
    let mut violations = Vec::new();
    for (resource, value) in counters {
        let writes: Vec<_> = rows.iter().filter(|row| row.resource == *resource).map(|row| row.write).collect();
        violations.extend(lock_history::no_update_is_lost(resource, *value, &writes));
    }
    let key = |resource: &str, token: u64| (resource.to_owned(), token);
    let written: HashSet<_> = rows.iter().map(|row| key(&row.resource, row.write.token)).collect();
    // A holder that was killed while it wrote does not know whether the write arrived.
    let (mut tried, mut known) = (HashSet::new(), HashSet::new());
    for grant in grants {
        if grant.holder.wrote == Some(Write::Accepted) {
            known.insert(key(&grant.resource, grant.token));
        }
        if grant.holder.writing.is_some() {
            tried.insert(key(&grant.resource, grant.token));
        }
    }
    violations.extend(known.difference(&written).map(|write| format!("an acknowledged write is missing: {write:?}")));
    violations.extend(written.difference(&tried).map(|write| format!("a write that no holder tried: {write:?}")));
    violations
}

/// No manager reports `ShuttingDown` before it is closed.
pub(super) fn no_open_manager_reports_a_shutdown(histories: &[Vec<Record>]) -> Vec<String> {
    let mut violations = Vec::new();
    for history in histories {
        let open = history.iter().take_while(|record| record.event != Event::Closing);
        let rejected = |event: &Event| matches!(event, Event::Rejected { kind, .. } if kind == SHUTTING_DOWN);
        let records = open.filter(|record| rejected(&record.event));
        violations.extend(records.map(|record| format!("an open manager reported a shutdown: {record:?}")));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_history::Moment;

    /// A grant whose acquisition took one unit, held up to `claimed` or `ended`, whose holder wrote.
    fn grant(token: u64, granted: u64, claimed: u64, ended: Option<u64>) -> Grant {
        let (wrote, ended) = (Some(Write::Accepted), ended.map(Moment));
        let holder = Holder { writing: Some(Moment(granted)), wrote, ..Holder::of((0, 0)) };
        let granted = Grant::new(("r", token), holder, [granted - 1, granted, claimed].map(Moment));
        Grant { ended, released: ended, ..granted }
    }

    fn row(token: u64, value: u64) -> Row {
        Row { resource: "r".into(), write: lock_history::Write { token, value } }
    }

    /// How many violations two grants have.
    fn found(one: Grant, other: Grant) -> usize {
        grants_keep_the_promises(&[one, other], &[]).len()
    }

    #[test]
    fn a_token_that_was_granted_twice_is_found() {
        assert_eq!(found(grant(1, 10, 20, None), grant(2, 30, 40, None)), 0);
        assert_eq!(found(grant(1, 10, 20, None), grant(1, 30, 40, None)), 3, "not unique, not ordered, not growing");
        let other = Grant { resource: "other".into(), ..grant(1, 30, 40, None) };
        assert_eq!(found(grant(1, 10, 20, None), other), 0);
    }

    #[test]
    fn a_token_that_is_smaller_than_an_earlier_one_is_found() {
        assert_eq!(found(grant(2, 10, 20, None), grant(1, 30, 40, None)), 2, "not ordered, not growing");
        // The second began before the first was complete: its token may be smaller if it was not valid afterwards.
        let overlapping = Grant { began: Moment(9), ..grant(1, 30, 40, Some(30)) };
        assert_eq!(found(grant(2, 10, 20, None), overlapping), 0);
    }

    #[test]
    fn a_smaller_token_is_found_even_if_the_acquisitions_overlap() {
        let waited = |token| Grant { began: Moment(9), ..grant(token, 30, 40, None) };
        assert_eq!(found(grant(2, 10, 20, None), waited(1)), 1);
        assert_eq!(found(grant(2, 10, 20, None), waited(2)), 2, "and not unique");
        assert_eq!(found(grant(2, 10, 20, None), waited(3)), 0);
        assert_eq!(found(grant(2, 10, 20, None), Grant { ended: Some(Moment(30)), ..waited(1) }), 0, "never held");
    }

    #[test]
    fn two_valid_holders_are_found() {
        assert_eq!(found(grant(1, 10, 30, None), grant(2, 20, 40, None)), 1, "the first is still valid");
        assert_eq!(found(grant(1, 10, 30, Some(15)), grant(2, 20, 40, None)), 0, "it was released");
        assert_eq!(found(grant(1, 10, 30, Some(50)), grant(2, 30, 40, None)), 0, "it was released after its end");
        assert_eq!(found(grant(1, 10, 90, None), grant(2, 20, 15, None)), 0, "it was over before it was seen");
        let third = [grant(1, 10, 90, None), grant(2, 20, 30, None), grant(3, 40, 50, None)];
        assert_eq!(grants_keep_the_promises(&third, &[]).len(), 2, "the long validity overlaps both");
    }

    #[test]
    fn a_holder_beyond_the_permits_is_found() {
        let slot =
            |slot: u32, granted| Grant { resource: format!("account-1{{{slot}}}"), ..grant(1, granted, 40, None) };
        assert_eq!(found(slot(0, 10), slot(1, 20)), 0, "each slot has a token 1");
        assert_eq!(grants_keep_the_promises(&[slot(0, 10), slot(1, 20), slot(2, 30)], &[]).len(), 1);
        assert_eq!(found(slot(0, 10), Grant { token: 2, ..slot(0, 20) }), 1, "one slot");
    }

    #[test]
    fn a_holder_beside_its_successor_is_found_unless_it_was_evicted() {
        let found = |evictions: &[Eviction]| {
            let violations = grants_keep_the_promises(&[grant(1, 10, 30, None), grant(9, 20, 40, None)], evictions);
            violations.into_iter().map(|(_, kinds)| kinds).collect::<Vec<_>>()
        };
        let (began, ended) = (Moment(15), Moment(18));
        let eviction = |resource: &str| Eviction { resource: resource.into(), token: Some(5), began, ended };
        assert_eq!(found(&[]), [[Kind::Write; 2]]);
        assert_eq!(found(&[eviction("r")]), [] as [[Kind; 2]; 0]);
        assert_eq!(found(&[eviction("other")]), [[Kind::Write; 2]]);
    }

    #[test]
    fn a_write_of_an_evicted_holder_is_found() {
        let forced = |claimed| {
            let holder = Holder { kind: Kind::Force, claimed: Some(Moment(claimed)), ..Holder::of((0, 0)) };
            Grant { holder, ..grant(5, 8, 8, None) }
        };
        let found = |claimed| the_evicted_do_not_write(&[grant(1, 10, 30, None), forced(claimed)]).len();
        assert_eq!([9, 10].map(found), [1, 0], "it wrote after the claim; at the same time");
    }

    #[test]
    fn a_lost_update_is_found() {
        let grants = [grant(1, 10, 20, None), grant(2, 30, 40, None)];
        let lost = |value, rows: &[Row]| no_update_is_lost(&grants, &[("r".into(), value)], rows);
        assert_eq!(lost(2, &[row(1, 1), row(2, 2)]), Vec::<String>::new());
        assert_eq!(lost(1, &[row(1, 1), row(2, 1)]).len(), 2, "the counter, and the write that did not see the other");
        assert_eq!(lost(2, &[row(2, 1), row(1, 2)]).len(), 1, "the smaller token wrote later");
        assert_eq!(lost(1, &[row(1, 1)]).len(), 1, "an acknowledged write is missing");
        assert_eq!(lost(3, &[row(1, 1), row(2, 2), row(3, 3)]).len(), 1, "no holder had this token");
    }

    #[test]
    fn a_write_of_a_killed_holder_may_be_there_or_not() {
        let mut killed = grant(1, 10, 20, None);
        killed.holder.wrote = None;
        for rows in [vec![], vec![row(1, 1)]] {
            let counters = [("r".into(), u64::try_from(rows.len()).unwrap())];
            assert_eq!(no_update_is_lost(std::slice::from_ref(&killed), &counters, &rows), Vec::<String>::new());
        }
    }

    #[test]
    fn a_shutdown_that_is_reported_before_the_close_is_found() {
        let rejected = |kind: &str| Event::Rejected { attempt: 1, resource: "r".into(), kind: kind.into() };
        let found = |events: [Event; 2]| {
            let history = events.map(|event| Record { at: Moment(1), event }).to_vec();
            no_open_manager_reports_a_shutdown(&[history]).len()
        };
        assert_eq!(found([rejected(SHUTTING_DOWN), Event::Closing]), 1);
        assert_eq!(found([Event::Closing, rejected(SHUTTING_DOWN)]), 0);
        assert_eq!(found([rejected("contended"), Event::Closing]), 0);
    }
}
