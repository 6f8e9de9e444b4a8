use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Call, Event, History};
use super::plan::Scenario;
use super::register::Register;
use super::run::TICK;

/// How much longer than its wait a call may take: the first contact with the nodes, and an attempt that began at the last
/// moment, with two rounds of confirmation.
const SLACK: Duration = Duration::from_millis(1_000 + 3 * 50 + 10);

/// What a call of `acquire` came to.
#[derive(Clone, Copy, Debug)]
struct Grant {
    call: Call,
    asked: Duration,
    granted: Duration,
    token: u64,
    /// If it was handed on inside the client: when the call began that took it from the nodes.
    handed_on: Option<Duration>,
    /// When its holder was told that it ended, or died. `None` if never.
    ended: Option<Duration>,
}

/// Everything in a history that a promise forbids.
pub(super) fn violations(history: &History, registers: &[Register], scenario: Scenario) -> Vec<String> {
    let grants = grants(history);
    let mut found = answered_in_time(history);
    for (resource, register) in registers.iter().enumerate() {
        let lost = register.lost_updates();
        if lost > 0 {
            found.push(format!("{lost} updates of resource-{resource} are lost"));
        }
        let grants: Vec<Grant> = grants.iter().filter(|grant| grant.call.resource == resource).copied().collect();
        if scenario != Scenario::Amnesia {
            found.extend(unique_tokens(&grants));
            found.extend(increasing_tokens(&grants, &clock_jumps(history)));
        }
        if scenario == Scenario::Promised {
            found.extend(exclusive_leases(&grants));
        }
    }
    found
}

/// Grants in the order in which they came.
fn grants(history: &History) -> Vec<Grant> {
    let mut asked = BTreeMap::new();
    let mut grants: Vec<Grant> = Vec::new();
    let mut alive: BTreeMap<Call, usize> = BTreeMap::new();
    let mut released: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (at, event) in &history.entries {
        match event {
            Event::Asked { call, .. } => _ = asked.insert(*call, *at),
            Event::Granted { call, token, .. } => {
                alive.insert(*call, grants.len());
                let asked = asked.get(call).copied().unwrap_or_default();
                let before = released.get(&(call.client, call.resource)).map(|before| grants[*before]);
                // The next token, in the client that had the last one, and no time for a question to the nodes between them.
                let before = before.filter(|before| {
                    let since = before.ended.map(|ended| *at - ended);
                    before.token + 1 == *token && since.is_some_and(|since| since < TICK * 2)
                });
                let handed_on = before.map(|before| before.handed_on.unwrap_or(before.asked));
                grants.push(Grant { call: *call, asked, granted: *at, token: *token, handed_on, ended: None });
            }
            Event::Ended { call, why } => {
                if let Some(grant) = alive.remove(call) {
                    grants[grant].ended = Some(*at);
                    if *why == "released" {
                        released.insert((call.client, call.resource), grant);
                    }
                }
            }
            Event::Crashed { client } => {
                for grant in alive.values().copied() {
                    if grants[grant].call.client == *client && grants[grant].ended.is_none() {
                        grants[grant].ended = Some(*at);
                    }
                }
            }
            _ => {}
        }
    }
    grants
}

/// How many locks were handed on inside a client.
pub(super) fn handed_over(history: &History) -> u64 {
    grants(history).iter().filter(|grant| grant.handed_on.is_some()).count() as u64
}

fn clock_jumps(history: &History) -> Vec<Duration> {
    let jump = |event: &Event| matches!(event, Event::Fault(what) if what.starts_with("clock jump"));
    history.entries.iter().filter(|(_, event)| jump(event)).map(|(at, _)| *at).collect()
}

/// Each call has an answer within its wait, unless its process died.
fn answered_in_time(history: &History) -> Vec<String> {
    let mut open: BTreeMap<Call, Duration> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, event) in &history.entries {
        match event {
            Event::Asked { call, wait, .. } => _ = open.insert(*call, *at + *wait + SLACK),
            Event::Granted { call, .. } | Event::Failed { call, .. } | Event::Dropped { call } => {
                let late = open.remove(call).filter(|due| at > due);
                found.extend(late.map(|due| format!("{call} was due at {due:?}, and was answered at {at:?}")));
            }
            Event::Crashed { client } => open.retain(|call, _| call.client != *client),
            _ => {}
        }
    }
    found.extend(open.keys().map(|call| format!("{call} was never answered")));
    found
}

fn unique_tokens(grants: &[Grant]) -> Vec<String> {
    let mut seen: BTreeMap<u64, Call> = BTreeMap::new();
    let twice = |grant: &Grant| {
        let before = seen.insert(grant.token, grant.call)?;
        Some(format!("{before} and {} have one token, {}", grant.call, grant.token))
    };
    grants.iter().filter_map(twice).collect()
}

/// The token of a call is larger than those of all calls that were granted before it asked.
///
/// Except for that of a lock that was handed on: it was reserved when the lock was taken from the nodes. That no other client
/// was granted a larger one meanwhile rests on exclusion, which a clock that jumps takes away.
fn increasing_tokens(grants: &[Grant], jumps: &[Duration]) -> Vec<String> {
    let mut by_asked: Vec<&Grant> = grants.iter().collect();
    by_asked.sort_by_key(|grant| grant.asked);
    let mut by_granted: Vec<&Grant> = grants.iter().collect();
    by_granted.sort_by_key(|grant| grant.granted);
    let mut before = by_granted.into_iter().peekable();
    let mut largest: Option<&Grant> = None;
    let mut found = Vec::new();
    for grant in by_asked {
        while let Some(earlier) = before.next_if(|earlier| earlier.granted < grant.asked) {
            if largest.is_none_or(|largest| largest.token < earlier.token) {
                largest = Some(earlier);
            }
        }
        let jumped = |taken| jumps.iter().any(|jump| (taken..=grant.granted).contains(jump));
        if grant.handed_on.is_some_and(jumped) {
            continue;
        }
        if let Some(largest) = largest.filter(|largest| largest.token >= grant.token) {
            let (earlier, token) = (largest.call, largest.token);
            found.push(format!("{} asked after {earlier} had {token}, and was granted {}", grant.call, grant.token));
        }
    }
    found
}

/// No lease begins while another one of the resource is valid.
fn exclusive_leases(grants: &[Grant]) -> Vec<String> {
    let mut sorted: Vec<&Grant> = grants.iter().collect();
    sorted.sort_by_key(|grant| grant.granted);
    let mut found = Vec::new();
    let mut longest: Option<&Grant> = None;
    for grant in sorted {
        let ends = |grant: &Grant| grant.ended.unwrap_or(Duration::MAX);
        if let Some(holder) = longest.filter(|holder| ends(holder) > grant.granted) {
            let (granted, until) = (grant.granted, holder.ended);
            found.push(format!(
                "{} was granted at {granted:?} while {} held on until {until:?}",
                grant.call, holder.call
            ));
        }
        if longest.is_none_or(|longest| ends(longest) < ends(grant)) {
            longest = Some(grant);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(number: u64, asked: u64, granted: u64, ended: u64, token: u64) -> Grant {
        let call = Call { number, client: 0, resource: 0 };
        let ms = Duration::from_millis;
        Grant { call, asked: ms(asked), granted: ms(granted), token, handed_on: None, ended: Some(ms(ended)) }
    }

    #[test]
    fn two_leases_at_once_are_found_and_two_in_turn_are_not() {
        assert!(exclusive_leases(&[grant(1, 0, 1, 5, 1), grant(2, 0, 5, 9, 2)]).is_empty());
        assert_eq!(exclusive_leases(&[grant(1, 0, 1, 6, 1), grant(2, 0, 5, 9, 2)]).len(), 1);
        let inner = [grant(1, 0, 1, 9, 1), grant(2, 0, 2, 3, 2), grant(3, 0, 5, 6, 3)];
        assert_eq!(exclusive_leases(&inner).len(), 2);
    }

    #[test]
    fn a_token_is_larger_than_those_granted_before_its_call() {
        assert!(increasing_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 3, 5, 9, 1)], &[]).is_empty(), "at the same time");
        assert_eq!(increasing_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 1)], &[]).len(), 1);
        assert_eq!(unique_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 2)]).len(), 1);
    }

    #[test]
    fn a_lock_that_was_handed_on_may_have_an_older_token_only_after_a_jump() {
        let earlier = grant(1, 0, 4, 5, 2);
        let handed_on = Grant { handed_on: Some(Duration::from_millis(3)), ..grant(2, 5, 6, 9, 1) };
        let told = |jump: u64| increasing_tokens(&[earlier, handed_on], &[Duration::from_millis(jump)]).len();
        assert_eq!([2, 3, 6, 7].map(told), [1, 0, 0, 1]);
        let own = grant(2, 5, 6, 9, 1);
        assert_eq!(increasing_tokens(&[earlier, own], &[Duration::from_millis(5)]).len(), 1);
    }

    #[test]
    fn the_next_token_at_once_is_a_lock_that_was_handed_on() {
        let mut history = History::default();
        let ms = Duration::from_millis;
        let mut take = |client: usize, asks: u64, at: u64, token: u64| {
            let call = history.call(client, 0);
            history.note(ms(asks), Event::Asked { call, ttl: ms(1), wait: ms(1) });
            history.note(ms(at), Event::Granted { call, token, remaining: ms(1) });
            history.note(ms(at + 3), Event::Ended { call, why: "released" });
        };
        take(0, 0, 1, 7);
        take(0, 2, 4, 8);
        take(0, 3, 9, 9);
        take(1, 3, 12, 10);
        take(1, 4, 15, 12);
        assert_eq!(handed_over(&history), 1, "late; another client; another token");
    }

    #[test]
    fn a_call_that_is_never_answered_is_found() {
        let mut history = History::default();
        let call = history.call(0, 0);
        let (ttl, wait) = (Duration::from_secs(1), Duration::ZERO);
        history.note(Duration::ZERO, Event::Asked { call, ttl, wait });
        assert_eq!(answered_in_time(&history).len(), 1);
        history.note(Duration::from_secs(2), Event::Failed { call, why: "contended" });
        assert_eq!(answered_in_time(&history).len(), 1, "too late");
    }
}
