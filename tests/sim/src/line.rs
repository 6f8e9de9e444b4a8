use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Event, History};
use super::plan::{MAX_TTL, Plan, Scenario};

/// How long everyone holds its lock who stood in line for it after the faults.
pub(super) const HOLD: Duration = Duration::from_millis(20);
/// How many messages one handover may take, and what of a turn that is not taken may be lost.
const MESSAGES: u32 = 12;
const TURN: Duration = Duration::from_millis(100);

/// How long each client that lived waited for each lock after the faults: until it was granted, or to the end of the run.
/// Time for which it was frozen does not count.
fn waits(history: &History, lines_up: Duration) -> Vec<(usize, usize, Duration)> {
    let (mut began, mut frozen, mut waits) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut end = lines_up;
    for (at, event) in history.entries.iter().filter(|(at, _)| *at >= lines_up) {
        end = *at;
        match event {
            Event::Began { call, .. } => _ = began.entry((call.client, call.resource)).or_insert(*at),
            Event::Granted { call, .. } => {
                let since = began.remove(&(call.client, call.resource)).unwrap_or(*at);
                waits.push((call.client, call.resource, *at - since));
            }
            Event::Crashed { client } => began.retain(|(waiting, _), _| waiting != client),
            Event::Suspended { client } => _ = frozen.insert(*client, *at),
            Event::Resumed { client } => {
                let missed = frozen.remove(client).map_or(Duration::ZERO, |from| *at - from);
                began.iter_mut().filter(|((waiting, _), _)| waiting == client).for_each(|(_, since)| *since += missed);
            }
            _ => {}
        }
    }
    waits.extend(began.into_iter().map(|((client, resource), since)| (client, resource, end.saturating_sub(since))));
    waits
}

/// How long a client may wait in line after the faults: for the locks of two that died or froze with it, for the turns of all
/// others, and for their handovers.
fn most(plan: &Plan) -> Duration {
    let clients = u32::try_from(plan.clients).unwrap_or(u32::MAX);
    let handover = HOLD + Duration::from_millis(plan.latency) * MESSAGES;
    MAX_TTL * 2 + (TURN + handover) * clients
}

/// The longest wait in line after the faults.
pub(super) fn longest_wait(history: &History, plan: &Plan) -> Duration {
    waits(history, plan.lines_up()).into_iter().map(|(.., wait)| wait).max().unwrap_or_default()
}

/// Clients that waited too long for a lock, although they and the servers were there.
pub(super) fn overdue_waits(history: &History, plan: &Plan) -> Vec<String> {
    // Where the clocks of servers jump, what a dead client had expires when they say so.
    if plan.scenario != Scenario::Promised {
        return Vec::new();
    }
    let late = waits(history, plan.lines_up()).into_iter().filter(|(.., wait)| *wait > most(plan));
    let text = |(client, resource, wait)| {
        format!("client-{client} waited {wait:?} in line for {}", Plan::resource_name(resource))
    };
    late.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_the_lock_is_granted_without_the_time_in_which_the_client_was_frozen() {
        let ms = Duration::from_millis;
        let mut history = History::default();
        let [served, frozen, dead, left] = [0, 1, 2, 3].map(|client| history.call(client, 0));
        for call in [served, frozen, dead, left] {
            history.record(ms(5), Event::Began { call, ttl: MAX_TTL, wait: MAX_TTL });
        }
        history.record(ms(10), Event::Suspended { client: 1 });
        history.record(ms(20), Event::Granted { call: served, token: 1, reads: false, remaining: MAX_TTL });
        history.record(ms(30), Event::Crashed { client: 2 });
        history.record(ms(110), Event::Resumed { client: 1 });
        history.record(ms(120), Event::Granted { call: frozen, token: 2, reads: true, remaining: MAX_TTL });
        history.record(ms(200), Event::Finished { client: 0 });
        assert_eq!(waits(&history, ms(0)), [(0, 0, ms(15)), (1, 0, ms(15)), (3, 0, ms(195))]);
        let later = waits(&history, ms(6));
        assert!(later.iter().all(|(client, ..)| *client < 2), "calls of the time of faults are not in line: {later:?}");
    }
}
