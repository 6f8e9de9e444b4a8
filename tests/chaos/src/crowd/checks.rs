use std::cmp::Reverse;
use std::time::Duration;

use lock_core::node::RESERVATION_TTL;

use super::super::fairness::no_process_starves;
use super::super::grants::{Grant, Process};
use super::super::history::Record;
use super::super::liveness::{Finding, free};
use super::super::store::Store;
use super::super::waits::Wait;
use super::super::windows::{Window, phases, stalled, stalls};
use super::super::{LONG_WAIT, NODE_TIMEOUT};
use super::absence::{Absence, Kind, absences};
use super::rounds::ESTABLISHED;
use super::stats::CrowdStats;
use super::{CROWD, CROWD_PHASE, CROWD_RESOURCE};
use lock_history::Moment;

/// What a free lock may cost besides the reservations that pass and the time in which processes stood still: a master that does
/// not reply (only the first time), the jitter of the next in line, the rounds of its attempt, and a second attempt if two came at
/// once. Without load it is around 20 ms; the servers, whose stalls nobody records, need the rest.
const MARGIN: Duration = NODE_TIMEOUT.saturating_add(Duration::from_millis(100));
/// How long a killed process may still be in line.
const REMEMBERED: Duration = Duration::from_secs(2);
/// Within this time, two waiters may enter the line in any order.
const AT_THE_SAME_TIME: Duration = Duration::from_millis(20);
/// The third waiter that is frozen is followed by one that is not woken, so that its reservation passes as well.
const FIRST_UNWOKEN: usize = 3;

/// What the crowd went through.
struct Crowd<'a> {
    waits: Vec<&'a Wait>,
    absences: Vec<Absence>,
    /// Each phase of the crowd.
    windows: Vec<Window>,
    /// When the lock was free.
    free: Vec<Window>,
    /// What a free lock may cost beside what is expected.
    margin: Duration,
    /// Whether each killed process has a turn, instead of one for all of them.
    killed_in_turn: bool,
    /// When a process stood still. Those of the nemesis hit every connection.
    stalls: Vec<(Option<Process>, Window)>,
}

/// Checks the phases of the crowd, and counts what happened in them.
pub(in super::super) fn judge(
    histories: &[Vec<Record>],
    grants: &[Grant],
    waits: &[Wait],
    store: Store,
) -> (CrowdStats, Vec<String>) {
    let nemesis = histories.first().map_or(&[][..], Vec::as_slice);
    let grants: Vec<Grant> = grants.iter().filter(|grant| grant.resource == CROWD_RESOURCE).cloned().collect();
    let waits: Vec<&Wait> = waits.iter().filter(|wait| wait.resource == CROWD_RESOURCE).collect();
    let absences = absences(nemesis);
    let windows = phases(nemesis, CROWD_PHASE);
    let free = certainly_free(&grants, &waits, &absences, store);
    let crowd = Crowd {
        waits,
        absences,
        windows,
        free,
        margin: MARGIN + 2 * store.slack(),
        killed_in_turn: store.keeps_the_killed_in_line(),
        stalls: histories.iter().flat_map(|history| stalls(history)).collect(),
    };
    let unhit: Vec<Wait> = crowd.unhit().cloned().collect();
    let (taken, served) = (crowd.free_locks_are_taken(), crowd.everybody_is_served());
    let passed = no_process_starves(&grants, &unhit, &crowd.windows, CROWD);
    let mut stats = CrowdStats::count(&crowd.absences, &crowd.waits);
    stats.longest_free = taken.worst.0;
    stats.most_margin = taken.worst.1;
    stats.longest_wait = served.worst;
    stats.most_passed = passed.worst;
    stats.exercised = [taken.exercised, served.exercised, passed.exercised];
    (stats, [taken.violations, served.violations, passed.violations].concat())
}

impl Crowd<'_> {
    /// The waits of processes that could take part all the time.
    fn unhit(&self) -> impl Iterator<Item = &Wait> {
        let hit =
            |wait: &Wait, window| self.absences.iter().any(|it| it.process == wait.process && it.overlaps(window));
        self.waits.iter().copied().filter(move |wait| !hit(wait, Window { from: wait.began, to: wait.ended }))
    }

    /// While one waits that can take part, the lock is not free for longer than the reservations of those that cannot. Finds the
    /// longest time for which it was free, and the most of the margin that was needed.
    fn free_locks_are_taken(&self) -> Finding<(Duration, Duration)> {
        let mut found = Finding::<(Duration, Duration)>::default();
        for free in self.windows.iter().flat_map(|window| self.free.iter().filter_map(|free| free.within(*window))) {
            // Of all that wait, the one that waited for the longest of this time; if there are several, the first in line.
            let waiting = self.waits.iter().filter(|wait| wait.began < free.to && free.from < wait.ended);
            let able = waiting.filter_map(|wait| Some((*wait, wait.within(free)?)));
            let able = able.filter(|(wait, within)| {
                !self.absences.iter().any(|it| it.process == wait.process && it.overlaps(*within))
            });
            let Some((wait, within)) = able.max_by_key(|(wait, within)| (within.length(), Reverse(wait.began))) else {
                continue;
            };
            let (length, passing) = (within.length(), self.reservations_that_pass(within, wait));
            found.exercised += u64::from(passing > 0 && length > RESERVATION_TTL / 2);
            let expected = RESERVATION_TTL * passing + self.stalled(within);
            let margin = length.saturating_sub(expected);
            found.worst = (found.worst.0.max(length), found.worst.1.max(margin));
            if margin > self.margin {
                found.violations.push(format!(
                    "{CROWD_RESOURCE} was free for {length:?} while one waited that was not hit, {expected:?} expected: {within:?}, {wait:?}"
                ));
            }
        }
        found
    }

    /// How many reservations may pass before this waiter has the lock: one for each that is frozen before it, one for any that
    /// were killed, which are found out at once or after all others, and one for a waiter that is not woken.
    fn reservations_that_pass(&self, free: Window, waiter: &Wait) -> u32 {
        let before = |it: &&Absence| {
            in_line(&self.waits, it).is_some_and(|wait| wait.began <= waiter.began.plus(AT_THE_SAME_TIME))
        };
        let frozen =
            self.absences.iter().filter(|it| it.kind == Kind::Frozen && it.overlaps(free)).filter(before).count();
        let lately =
            Window { from: Moment(free.from.0.saturating_sub(u64::try_from(REMEMBERED.as_micros()).unwrap())), ..free };
        let killed = self.absences.iter().filter(|it| it.kind == Kind::Killed && lately.contains(it.window.from));
        let passing = match self.killed_in_turn {
            true => frozen + killed.filter(before).count(),
            false => frozen + usize::from(killed.count() > 0 || frozen >= FIRST_UNWOKEN),
        };
        u32::try_from(passing).unwrap()
    }

    /// How much of a window at least one process stood still that takes part.
    fn stalled(&self, window: Window) -> Duration {
        let frozen = |process: &Option<Process>| {
            self.absences
                .iter()
                .any(|it| Some(it.process) == *process && it.kind == Kind::Frozen && it.overlaps(window))
        };
        let stalls = self.stalls.iter().filter(|(process, _)| !frozen(process));
        stalled(stalls.map(|(_, stall)| stall), window)
    }

    /// A caller that is willing to wait for long, and is not hit, gets the lock.
    fn everybody_is_served(&self) -> Finding<Duration> {
        let mut found = Finding::<Duration>::default();
        let inside =
            |wait: &Wait| self.windows.iter().any(|window| window.contains(wait.began) && wait.ended < window.to);
        for wait in self.unhit().filter(|wait| inside(wait) && wait.max_wait == LONG_WAIT) {
            let length = wait.ended.since(wait.began);
            found.exercised += 1;
            found.worst = found.worst.max(length);
            // One that failed before its time was over was told that no majority replied.
            if !wait.granted && length >= LONG_WAIT {
                found.violations.push(format!("not served within {length:?}, and not hit: {wait:?}"));
            }
        }
        found
    }
}

/// The wait that a process was in when it was hit, if it was in line.
pub(super) fn in_line<'a>(waits: &[&'a Wait], absence: &Absence) -> Option<&'a Wait> {
    let open = |wait: &&&Wait| wait.process == absence.process && wait.was_open_at(absence.window.from);
    waits.iter().find(open).copied()
}

/// The times in which no master can have had a key of the lock: a process that was hit while nobody else had held the lock for a
/// while may have been about to take it.
fn certainly_free(grants: &[Grant], waits: &[&Wait], absences: &[Absence], store: Store) -> Vec<Window> {
    let mut sorted: Vec<&Grant> = grants.iter().collect();
    sorted.sort_by_key(|grant| grant.granted);
    let mut spans = free(&sorted, store.outlives());
    for absence in absences.iter().filter(|absence| absence.kind != Kind::Cut && in_line(waits, absence).is_some()) {
        let at = absence.window.from;
        let holds = |grant: &&Grant| {
            grant.holder.process != absence.process
                && grant.granted.plus(ESTABLISHED + store.slack()) <= at
                && at < grant.ends()
        };
        if !grants.iter().any(|grant| holds(&grant)) {
            let (before, after) = (
                Window { from: Moment(0), to: at },
                Window { from: at.plus(store.outlives() + NODE_TIMEOUT), to: Moment::MAX },
            );
            spans = spans.iter().flat_map(|span| [span.within(before), span.within(after)]).flatten().collect();
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::super::grants::Holder;
    use super::super::super::history::Event;
    use super::super::MEMBERS;
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(millis * 1_000)
    }

    fn member(index: usize) -> Process {
        (MEMBERS.start + index, 0)
    }

    fn record(millis: u64, event: Event) -> Record {
        Record { at: at(millis), event }
    }

    /// The third of the crowd holds the lock until 2 s, and the second from `next` on.
    fn grants(next: u64) -> [Grant; 2] {
        let held = |index, token, from: u64, to: u64| {
            let granted = Grant::new((CROWD_RESOURCE, token), Holder::of(member(index)), [at(0), at(from), at(9_900)]);
            Grant { ended: Some(at(to)), released: Some(at(to)), ..granted }
        };
        [held(2, 1, 1_095, 2_000), held(1, 2, next, 9_800)]
    }

    fn wait(index: usize, ended: u64, granted: bool) -> Wait {
        Wait {
            resource: CROWD_RESOURCE.into(),
            process: member(index),
            reads: false,
            began: at(1_100 + index as u64),
            ended: at(ended),
            killed: false,
            max_wait: LONG_WAIT,
            granted,
            dropped: false,
        }
    }

    /// What is found if the first of the crowd is hit at a time, and the second gets the lock at another time.
    fn hit(kind: &str, hit_at: u64, next: u64, stall: Option<(u64, u64)>) -> (CrowdStats, Vec<String>) {
        let fault = |service| {
            let (kind, generation) = (kind.to_owned(), Some(0));
            record(hit_at, Event::Fault { kind, server: None, service: Some(service), generation })
        };
        let phase = |millis, name: &str| record(millis, Event::Phase { name: name.to_owned() });
        let mut nemesis = vec![phase(500, CROWD_PHASE), fault(member(0).0)];
        nemesis.extend(stall.map(|(from, to)| record(to, Event::Stalled { from: at(from) })));
        nemesis.push(phase(9_500, "end"));
        let waits = [wait(0, 9_000, false), wait(1, next, true)];
        judge(&[nemesis], &grants(next), &waits, Store::Redis)
    }

    #[test]
    fn a_process_that_is_frozen_behind_another_explains_nothing() {
        let phase = |millis, name: &str| record(millis, Event::Phase { name: name.to_owned() });
        let (kind, service) = ("stop_service".to_owned(), Some(member(0).0));
        let fault = record(1_500, Event::Fault { kind, server: None, service, generation: Some(0) });
        let nemesis = vec![phase(500, CROWD_PHASE), fault, phase(9_500, "end")];
        let frozen = |began| Wait { began: at(began), ..wait(0, 9_000, false) };
        let found = |began| {
            let waits = [frozen(began), wait(1, 2_290, true)];
            judge(std::slice::from_ref(&nemesis), &grants(2_290), &waits, Store::Redis).1.len()
        };
        assert_eq!((found(1_100), found(1_400)), (0, 1));
    }

    #[test]
    fn a_lock_that_is_free_for_longer_than_a_frozen_process_explains_is_found() {
        let (stats, violations) = hit("stop_service", 1_500, 2_150, None);
        assert_eq!((stats.frozen, stats.frozen_at_head, stats.killed), (1, 1, 0));
        assert_eq!((violations, stats.exercised[0], stats.most_margin), (Vec::new(), 1, Duration::from_millis(50)));
        assert_eq!(hit("stop_service", 1_500, 2_290, None).1, Vec::<String>::new());
        assert_eq!(hit("stop_service", 1_500, 2_310, None).1.len(), 1);
        assert_eq!(
            hit("stop_service", 1_500, 2_310, Some((2_000, 2_050))).1,
            Vec::<String>::new(),
            "others stood still"
        );
        assert_eq!(hit("stop_service", 2_400, 2_310, None).1.len(), 1, "it was frozen later");
    }

    #[test]
    fn a_lock_that_stays_free_after_a_process_was_killed_in_line_is_found() {
        let (stats, violations) = hit("kill_service", 1_500, 2_290, None);
        assert_eq!((stats.killed, violations), (1, Vec::new()));
        assert_eq!(hit("kill_service", 1_500, 2_310, None).1.len(), 1);
        assert_eq!(hit("kill_service", 1_120, 2_400, None).1, Vec::<String>::new(), "it may have left keys behind");
        assert_eq!(hit("kill_service", 1_120, 2_600, None).1.len(), 1, "but these expire");
    }

    #[test]
    fn a_waiter_that_is_not_hit_and_not_served_is_found() {
        let nemesis = || {
            let phase = |millis, name: &str| record(millis, Event::Phase { name: name.to_owned() });
            vec![phase(500, CROWD_PHASE), phase(9_500, "end")]
        };
        let found = |wait: Wait| judge(&[nemesis()], &grants(2_010), &[wait], Store::Redis).1.len();
        assert_eq!((found(wait(0, 8_000, true)), found(wait(0, 8_000, false))), (0, 1));
        assert_eq!(found(wait(0, 3_000, false)), 0, "it was told that no majority replied");
        assert_eq!(found(wait(0, 9_900, false)), 0, "the crowd was asked to leave");
    }
}
