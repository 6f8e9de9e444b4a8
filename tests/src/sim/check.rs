use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Call, Event, History};
use super::plan::Scenario;
use super::register::Register;

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
            found.extend(increasing_tokens(&grants));
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
    for (at, event) in &history.entries {
        match event {
            Event::Asked { call, .. } => _ = asked.insert(*call, *at),
            Event::Granted { call, token, .. } => {
                alive.insert(*call, grants.len());
                let asked = asked.get(call).copied().unwrap_or_default();
                grants.push(Grant { call: *call, asked, granted: *at, token: *token, ended: None });
            }
            Event::Ended { call, .. } => {
                if let Some(grant) = alive.remove(call) {
                    grants[grant].ended = Some(*at);
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
fn increasing_tokens(grants: &[Grant]) -> Vec<String> {
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
        Grant { call, asked: ms(asked), granted: ms(granted), token, ended: Some(ms(ended)) }
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
        assert!(increasing_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 3, 5, 9, 1)]).is_empty(), "at the same time");
        assert_eq!(increasing_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 1)]).len(), 1);
        assert_eq!(unique_tokens(&[grant(1, 0, 4, 5, 2), grant(2, 5, 6, 9, 2)]).len(), 1);
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
