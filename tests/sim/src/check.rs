use std::collections::BTreeMap;
use std::time::Duration;

use lock_history::check::{self, Violation};
use lock_history::{Moment, Register, adoption, permits, sets_are_all_or_nothing, the_evicted_do_not_renew};

use super::grants::{Grant, Holder, evictions, grants, sets};
use super::history::{Call, Event, History};
use super::plan::{MAX_TTL, PERMITS, Scenario};

/// How much longer than its wait a call may take: the first contact with the nodes, and an attempt that began just before
/// the deadline, with two rounds of confirmation.
const SLACK: Duration = Duration::from_millis(1_000 + 3 * 50 + 10);

/// Everything in a history that breaks a promise of the scenario. Exclusion is not judged for grants during which the machine of
/// their holder was suspended, nor where a clock that stepped deleted the lock of the earlier holder.
pub(super) fn violations(history: &History, registers: &BTreeMap<String, Register>, scenario: Scenario) -> Vec<String> {
    let grants = grants(history);
    let mut found = overdue_calls(history);
    for (resource, register) in registers {
        found.extend(register.violations(resource));
    }
    found.extend(sets_are_all_or_nothing(&sets(history)));
    let held = grants.iter().filter(|grant| grant.was_held());
    found.extend(permits::no_more_hold_than_there_are_permits(held, |_| PERMITS.1).iter().map(Violation::to_string));
    let evictions = evictions(history);
    let is_excused = |violation: &Violation<'_, Holder>| evictions.iter().any(|it| it.excuses(violation, MAX_TTL));
    if scenario != Scenario::Amnesia {
        found.extend(check::tokens_are_unique(&grants).iter().map(Violation::to_string));
        let mut unordered = unordered_tokens(&grants, &clock_jumps(history));
        unordered.retain(|violation| !is_excused(violation));
        found.extend(unordered.iter().map(Violation::to_string));
    }
    if matches!(scenario, Scenario::Promised | Scenario::Elsewhere | Scenario::Clusters) {
        let freed = freed_locks(history);
        let judged = || grants.iter().filter(|grant| !grant.holder.suspended && !grant.holder.is_idle);
        let held = || judged().filter(|grant| grant.was_held());
        let forced: Vec<Grant> = grants.iter().filter(|grant| grant.holder.is_idle).cloned().collect();
        let mut violations = check::validity_does_not_overlap(judged());
        violations.extend(check::tokens_grow_from_holder_to_holder(held()));
        violations.retain(|violation| !freed.iter().any(|freed| freed.explains(violation)) && !is_excused(violation));
        violations.extend(the_evicted_do_not_renew(held(), &evictions, &forced, MAX_TTL));
        let adopted = grants.iter().filter(|grant| !grant.is_adopted || !grant.holder.suspended);
        violations.extend(adoption::ends_with_the_key_of_its_holder(adopted, MAX_TTL));
        found.extend(violations.iter().map(Violation::to_string));
    }
    found
}

/// A lock that a server lost because its clock stepped forward. Until its holder has renewed it, the lock may be granted to
/// someone else by that server and those that never had it.
struct Freed<'a> {
    resource: &'a str,
    at: Moment,
}

impl Freed<'_> {
    fn explains(&self, Violation { earlier, later, .. }: &Violation<'_, Holder>) -> bool {
        let about_it = earlier.resource == self.resource && earlier.taken() <= self.at && self.at <= later.granted;
        about_it && later.granted <= self.at.plus(MAX_TTL + SLACK)
    }
}

fn freed_locks(history: &History) -> Vec<Freed<'_>> {
    history
        .entries
        .iter()
        .filter_map(|(at, event)| match event {
            Event::Freed { resource } => Some(Freed { resource, at: Moment::after_start(*at) }),
            _ => None,
        })
        .collect()
}

/// From when to when a client's machine was suspended.
pub(super) fn suspensions(history: &History, client: usize) -> impl Iterator<Item = (Moment, Moment)> {
    let mut from = None;
    history.entries.iter().filter_map(move |(at, event)| match event {
        Event::Suspended { client: other } if *other == client => {
            from = Some(Moment::after_start(*at));
            None
        }
        Event::Resumed { client: other } if *other == client => Some((from.take()?, Moment::after_start(*at))),
        _ => None,
    })
}

/// How many locks were handed over inside a client.
pub(super) fn handovers(history: &History) -> u64 {
    grants(history).iter().filter(|grant| grant.inherited.is_some() && !grant.reads).count() as u64
}

/// Whether all permits were held at once: one if they were.
pub(super) fn all_permits_held(history: &History) -> u64 {
    let grants = grants(history);
    let most = permits::most_held_at_once(grants.iter().filter(|grant| grant.was_held()));
    u64::from(most.values().any(|most| *most == PERMITS.1 as usize))
}

/// How many readers were granted a lock that another one read.
pub(super) fn readers_beside_readers(history: &History) -> u64 {
    check::overlapping_readers(&grants(history))
}

fn clock_jumps(history: &History) -> Vec<Moment> {
    let jump = |event: &Event| match event {
        Event::Fault(what) => what.starts_with("clock jump"),
        Event::Freed { .. } => true,
        _ => false,
    };
    let jumps = history.entries.iter().filter(|(_, event)| jump(event));
    jumps.map(|(at, _)| Moment::after_start(*at)).collect()
}

/// Calls that did not return within their wait and [`SLACK`], although their process lived.
fn overdue_calls(history: &History) -> Vec<String> {
    let mut open: BTreeMap<Call, Duration> = BTreeMap::new();
    let (mut found, mut suspended) = (Vec::new(), BTreeMap::new());
    for (at, event) in &history.entries {
        match event {
            Event::Began { call, wait, .. } => _ = open.insert(*call, *at + *wait + SLACK),
            Event::Granted { call, .. } | Event::Failed { call, .. } | Event::Dropped { call } => {
                let late = open.remove(call).filter(|due| at > due);
                found.extend(late.map(|due| format!("{call} was due at {due:?} and returned at {at:?}")));
            }
            Event::Crashed { client } => open.retain(|call, _| call.client != *client),
            Event::Suspended { client } => _ = suspended.insert(*client, *at),
            // It did not know that time passed.
            Event::Resumed { client } => {
                let missed = suspended.remove(client).map_or(Duration::ZERO, |from| *at - from);
                open.iter_mut().filter(|(call, _)| call.client == *client).for_each(|(_, due)| *due += missed);
            }
            _ => {}
        }
    }
    found.extend(open.keys().map(|call| format!("{call} never returned")));
    found
}

/// Tokens that are not larger than those of all calls that were granted before their own call began.
///
/// The token of a lock that was handed over, or that readers share, is an exception after a clock jump or a suspension. It was reserved when the lock was
/// acquired from the nodes. Only mutual exclusion prevents another client from being granted a larger one meanwhile, and a
/// clock that jumps, or that of a holder that stands still, breaks mutual exclusion.
fn unordered_tokens<'a>(grants: &'a [Grant], jumps: &[Moment]) -> Vec<Violation<'a, Holder>> {
    let mut violations = check::tokens_are_ordered(grants);
    violations.retain(|Violation { later, .. }| {
        let jumped = |taken| jumps.iter().any(|jump| (taken..=later.granted).contains(jump));
        !later.inherited.is_some_and(|taken| later.holder.suspended || jumped(taken))
    });
    violations
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    fn grant(number: u64, began: u64, granted: u64, ended: u64, token: u64) -> Grant {
        let holder = Holder::of(Call { number, client: 0, resource: 0 });
        let grant = Grant::new(("r", token), holder, [at(began), at(granted), Moment::MAX]);
        Grant { ended: Some(at(ended)), ..grant }
    }

    #[test]
    fn overlapping_leases_are_found_and_consecutive_ones_are_not() {
        let overlaps = |grants: &[Grant]| check::validity_does_not_overlap(grants).len();
        assert_eq!(overlaps(&[grant(1, 0, 1, 5, 1), grant(2, 0, 5, 9, 2)]), 0);
        assert_eq!(overlaps(&[grant(1, 0, 1, 6, 1), grant(2, 0, 5, 9, 2)]), 1);
        assert_eq!(overlaps(&[grant(1, 0, 1, 6, 1), grant(2, 0, 5, 5, 2)]), 1, "however short");
        assert_eq!(overlaps(&[grant(1, 0, 1, 9, 1), grant(2, 0, 2, 3, 2), grant(3, 0, 5, 6, 3)]), 2);
    }

    #[test]
    fn a_token_is_larger_than_those_granted_before_its_call() {
        assert!(unordered_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 3, 5, 9, 1)], &[]).is_empty(), "at the same time");
        assert_eq!(unordered_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 1)], &[]).len(), 1);
        assert_eq!(check::tokens_are_unique(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 2)]).len(), 1);
    }

    #[test]
    fn exclusion_is_not_judged_for_a_client_whose_machine_was_suspended() {
        let two_holders = |suspended: std::ops::Range<u64>, events: &[Event]| {
            let mut history = History::default();
            let calls = [0, 1].map(|client| history.call(client, 0));
            for (call, at, token) in [(calls[0], 2, 7), (calls[1], 60, 8)] {
                history.record(Duration::from_millis(at), Event::Began { call, ttl: MAX_TTL, wait: MAX_TTL });
                let granted = Event::Granted { call, token, reads: false, remaining: MAX_TTL };
                history.record(Duration::from_millis(at + 2), granted);
            }
            history.record(Duration::from_millis(suspended.start), Event::Suspended { client: 0 });
            history.record(Duration::from_millis(suspended.end), Event::Resumed { client: 0 });
            for event in events {
                history.record(Duration::from_millis(50), event.clone());
            }
            for call in calls {
                history.record(Duration::from_millis(90), Event::Ended { call, why: "expired" });
            }
            history.entries.sort_by_key(|(at, _)| *at);
            violations(&history, &BTreeMap::new(), Scenario::Promised).len()
        };
        assert_eq!([0..1, 1..3, 10..40, 91..92].map(|suspended| two_holders(suspended, &[])), [1, 0, 0, 1]);
        let freed = |resource| [Event::Freed { resource: Plan::resource_name(resource) }];
        assert_eq!([0, 1].map(|resource| two_holders(91..92, &freed(resource))), [0, 1], "freed by a clock");
    }

    #[test]
    fn two_holders_of_a_slot_are_found_and_those_of_two_slots_are_not() {
        let found = |slots: &[u32]| {
            let mut history = History::default();
            for (slot, token) in slots.iter().zip(1..) {
                let call = history.call(0, PERMITS.0);
                history.record(Duration::ZERO, Event::Began { call, ttl: MAX_TTL, wait: MAX_TTL });
                history.record(MAX_TTL, Event::Slot { call, slot: *slot });
                history.record(MAX_TTL, Event::Granted { call, token, reads: false, remaining: MAX_TTL });
            }
            violations(&history, &BTreeMap::new(), Scenario::Promised).len()
        };
        assert_eq!((found(&[0, 1]), found(&[1, 1]), found(&[0, 1, 2])), (0, 1, 1));
    }

    #[test]
    fn a_suspended_client_does_not_know_that_its_call_is_late() {
        let mut history = History::default();
        let call = history.call(0, 0);
        history.record(Duration::ZERO, Event::Began { call, ttl: MAX_TTL, wait: Duration::ZERO });
        history.record(Duration::from_secs(1), Event::Suspended { client: 0 });
        history.record(Duration::from_secs(5), Event::Resumed { client: 0 });
        history.record(Duration::from_secs(5), Event::Failed { call, why: "contended" });
        assert!(overdue_calls(&history).is_empty());
    }

    #[test]
    fn a_lock_that_was_handed_over_may_have_an_older_token_only_after_a_jump() {
        let (earlier, own) = (grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 1));
        let handed_over = Grant { inherited: Some(at(3)), ..own.clone() };
        let found = |jump: u64| unordered_tokens(&[earlier.clone(), handed_over.clone()], &[at(jump)]).len();
        assert_eq!([2, 3, 6, 7].map(found), [1, 0, 0, 1]);
        assert_eq!(unordered_tokens(&[earlier, own], &[at(5)]).len(), 1);
    }

    #[test]
    fn the_next_token_at_once_is_a_lock_that_was_handed_over() {
        let mut history = History::default();
        let ms = Duration::from_millis;
        let mut take = |client: usize, begins: u64, at: u64, token: u64| {
            let call = history.call(client, 0);
            history.record(ms(begins), Event::Began { call, ttl: ms(1), wait: ms(1) });
            history.record(ms(at), Event::Granted { call, token, reads: false, remaining: ms(1) });
            history.record(ms(at + 3), Event::Ended { call, why: "released" });
        };
        take(0, 0, 1, 7);
        take(0, 2, 4, 8);
        take(0, 3, 9, 9);
        take(1, 3, 12, 10);
        take(1, 4, 15, 12);
        assert_eq!(handovers(&history), 1, "late; another client; another token");
    }

    #[test]
    fn a_call_that_never_returns_is_found() {
        let mut history = History::default();
        let call = history.call(0, 0);
        let (ttl, wait) = (Duration::from_secs(1), Duration::ZERO);
        history.record(Duration::ZERO, Event::Began { call, ttl, wait });
        assert_eq!(overdue_calls(&history).len(), 1);
        history.record(Duration::from_secs(2), Event::Failed { call, why: "contended" });
        assert_eq!(overdue_calls(&history).len(), 1, "too late");
    }
}
