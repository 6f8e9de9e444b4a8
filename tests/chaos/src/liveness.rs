//! Liveness: waiters make progress while everything is healthy.

use std::time::Duration;

use super::grants::Grant;
use super::waits::Wait;
use super::windows::{Window, stalled};
use super::{NODE_TIMEOUT, QUICK_RESOURCE, RESOURCES, SERVICES, TASKS, resource};
use lock_history::{Moment, by_resource};

/// The engine's: a waiter that gets no wake-up, and does not know when to try again, tries after this.
const TIMER: Duration = Duration::from_secs(1);
/// What a busy machine may add.
const MARGIN: Duration = Duration::from_millis(900);
/// A free resource is taken within this if someone waits: at the latest by the attempt that follows the timer of the
/// first waiter in a local queue. Wake-ups make it faster, and are not needed for it.
const MAX_FREE: Duration = TIMER.saturating_add(NODE_TIMEOUT).saturating_add(MARGIN);
/// How long one holder of the quick resource may take, including everything between it and the next. The work takes up
/// to 8 ms.
const PER_HOLDER: Duration = Duration::from_millis(50);
/// How many callers want it.
const CALLERS: u32 = 12;
const _: () = assert!(CALLERS as usize == SERVICES * TASKS);
/// Within this, every waiter for the quick resource is served: one timer, and all other callers once before it.
const MAX_SERVED: Duration = TIMER.saturating_add(PER_HOLDER.saturating_mul(CALLERS)).saturating_add(MARGIN);

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct Finding<T> {
    /// How close it came to a violation.
    pub(super) worst: T,
    /// How many waits the check could have reported. If none, it shows nothing.
    pub(super) exercised: u64,
    pub(super) violations: Vec<String>,
}

/// While someone waits, no resource stays free for long. One that may be held by a set which is being gathered is not free. Time in which a
/// process stood still does not count: the machine was too busy.
pub(super) fn free_locks_are_taken(
    grants: &[Grant],
    gathering: &[(String, Window)],
    waits: &[Wait],
    windows: &[Window],
    stalls: &[Window],
    outlives: Duration,
) -> Finding<Duration> {
    let mut found = Finding::<Duration>::default();
    let by_resource = by_resource(grants, |grant| grant.granted);
    for index in 0..RESOURCES {
        let resource = resource(index);
        // Others may have been granted the lock while the set waited for it: that shows nothing about the time after them.
        let gathered = gathering.iter().filter(|(name, _)| *name == resource);
        let gathered = gathered.map(|(_, window)| Window { to: window.to.plus(outlives), ..*window });
        let free = free(by_resource.get(resource.as_str()).map_or(&[], Vec::as_slice), outlives);
        let free: Vec<_> = free.iter().flat_map(|free| free.without(gathered.clone())).collect();
        for wait in waits.iter().filter(|wait| wait.resource == resource) {
            for window in windows {
                found.exercised += u64::from(wait.longest_within(*window).is_some_and(|most| most.length() > MAX_FREE));
                let Some(waiting) = wait.within(*window) else { continue };
                let first = free.partition_point(|free| free.to <= waiting.from);
                let while_it_waits =
                    free[first..].iter().map_while(|free| free.after(waiting.from)?.before(waiting.to));
                let Some(longest) = while_it_waits.max_by_key(|free| free.length()) else { continue };
                found.worst = found.worst.max(longest.length());
                if longest.length() > MAX_FREE + stalled(stalls.iter(), longest) {
                    let violation = format!("{resource} stayed free for {:?}: {longest:?}, {wait:?}", longest.length());
                    found.violations.push(violation);
                }
            }
        }
    }
    found
}

/// The spans in which nobody could hold a resource, by its grants in the order in which they were granted. A lock that nobody
/// releases lives for that long.
pub(super) fn free(grants: &[&Grant], outlives: Duration) -> Vec<Window> {
    let (mut free, mut from) = (Vec::new(), Moment(0));
    for grant in grants {
        free.extend((from < grant.granted).then_some(Window { from, to: grant.granted }));
        // A new writer shows that the previous lock was gone. A lease that was over before it was seen shows nothing
        // about later times.
        let is_alone = grant.was_held() && !grant.reads && !grant.is_adopted;
        from = if is_alone { grant.gone_by(outlives) } else { from.max(grant.gone_by(outlives)) };
    }
    free.push(Window { from, to: Moment::MAX });
    free
}

/// A writer for the quick resource is served as soon as everybody else, although readers come all the time: a wait counts if they began
/// to read when it had begun. Finds the longest of such waits.
pub(super) fn writers_are_served_beside_readers(
    grants: &[Grant],
    waits: &[Wait],
    windows: &[Window],
) -> Finding<Duration> {
    let mut reading: Vec<Moment> = (grants.iter())
        .filter(|grant| grant.reads && grant.resource == resource(QUICK_RESOURCE))
        .map(|grant| grant.began)
        .collect();
    reading.sort_unstable();
    let mut found = Finding::<Duration>::default();
    for wait in waits.iter().filter(|wait| !wait.reads && wait.resource == resource(QUICK_RESOURCE)) {
        for waiting in windows.iter().filter_map(|window| wait.within(*window)) {
            let began = |until| reading.partition_point(|began| *began < until);
            if began(waiting.to) == began(waiting.from) {
                continue;
            }
            found.exercised += 1;
            found.worst = found.worst.max(waiting.length());
            if waiting.length() > MAX_SERVED {
                found.violations.push(format!("a writer was not served within {:?}: {wait:?}", waiting.length()));
            }
        }
    }
    found
}

/// Waiters for the quick resource are served soon, however many they are.
pub(super) fn the_quick_resource_is_served(waits: &[Wait], windows: &[Window]) -> Finding<Duration> {
    let mut found = Finding::<Duration>::default();
    for wait in waits.iter().filter(|wait| wait.resource == resource(QUICK_RESOURCE)) {
        for window in windows {
            found.exercised += u64::from(wait.longest_within(*window).is_some_and(|most| most.length() > MAX_SERVED));
            let Some(waiting) = wait.within(*window) else { continue };
            found.worst = found.worst.max(waiting.length());
            if waiting.length() > MAX_SERVED {
                found.violations.push(format!("not served within {:?}: {wait:?} in {window:?}", waiting.length()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::super::{LONG_WAIT, MAX_TTL};
    use super::*;

    const HEALTHY: Window = Window { from: Moment(1_000_000), to: Moment(20_000_000) };

    fn at(millis: u64) -> Moment {
        Moment(millis * 1_000)
    }

    fn wait(began: u64, ended: u64, granted: bool) -> Wait {
        Wait {
            resource: resource(QUICK_RESOURCE),
            process: (0, 0),
            reads: false,
            began: at(began),
            ended: at(ended),
            killed: false,
            max_wait: LONG_WAIT,
            granted,
            dropped: false,
        }
    }

    fn held(from: u64, to: u64) -> Grant {
        let times = [at(from), at(from), at(to)];
        Grant { released: Some(at(to)), ..Grant::new((resource(QUICK_RESOURCE), from), Holder::of((1, 0)), times) }
    }

    #[test]
    fn a_resource_that_stays_free_is_found() {
        let stuck = |grants: &[Grant], wait| {
            free_locks_are_taken(grants, &[], &[wait], &[HEALTHY], &[], MAX_TTL).violations.len()
        };
        let grants = [held(500, 2_000), held(5_000, 6_000)];
        assert_eq!(stuck(&grants, wait(1_500, 5_000, true)), 1, "free from 2 s to 5 s");
        assert_eq!(stuck(&grants, wait(3_500, 5_000, true)), 0, "it waited for less");
        assert_eq!(stuck(&grants, wait(6_100, 9_000, false)), 1, "nobody got it again");
        assert_eq!(stuck(&[held(500, 2_000), held(3_000, 6_000)], wait(1_500, 6_000, true)), 0);
        assert_eq!(stuck(&[], wait(0, 6_000, false)), 1);
        let abandoned = Grant { released: None, ..held(500, 2_000) };
        assert_eq!(stuck(&[abandoned.clone(), held(5_000, 6_000)], wait(1_500, 5_000, true)), 0, "its key lived on");
        assert_eq!(stuck(&[abandoned, held(5_100, 6_000)], wait(1_500, 5_100, true)), 1, "but not for that long");
        assert_eq!(stuck(&grants, wait(17_500, 99_000, false)), 1, "up to the end of the window");
        assert_eq!(stuck(&grants, wait(18_500, 99_000, false)), 0, "nobody knows what happened later");
        assert_eq!(
            free_locks_are_taken(&grants, &[], &[wait(1_500, 5_000, true)], &[], &[], MAX_TTL).violations,
            Vec::<String>::new()
        );
    }

    #[test]
    fn time_in_which_a_process_stood_still_does_not_count() {
        let grants = [held(500, 2_000), held(4_500, 6_000)];
        let found = |stalls: &[Window]| {
            free_locks_are_taken(&grants, &[], &[wait(1_500, 4_500, true)], &[HEALTHY], stalls, MAX_TTL)
                .violations
                .len()
        };
        let stall = |from, to| Window { from: at(from), to: at(to) };
        assert_eq!(found(&[]), 1);
        assert_eq!(found(&[stall(2_100, 2_500), stall(2_200, 2_650)]), 0, "of two at once, one counts");
        assert_eq!(found(&[stall(2_100, 2_500), stall(2_200, 2_500)]), 1);
        assert_eq!(found(&[stall(500, 2_000)]), 1, "before it was free");
    }

    #[test]
    fn a_resource_that_is_gathered_for_a_set_is_not_free() {
        let waiting = wait(1_500, 5_000, true);
        let grants = [held(500, 2_000), held(5_000, 6_000)];
        let found = |gathering: &[(u64, u64)]| {
            let gathering = gathering.iter().map(|(from, to)| Window { from: at(*from), to: at(*to) });
            let gathering: Vec<_> = gathering.map(|window| (resource(QUICK_RESOURCE), window)).collect();
            free_locks_are_taken(&grants, &gathering, std::slice::from_ref(&waiting), &[HEALTHY], &[], MAX_TTL)
                .violations
                .len()
        };
        assert_eq!((found(&[]), found(&[(1_800, 4_500)])), (1, 0));
        assert_eq!(found(&[(300, 4_500)]), 0, "it got the lock after the writer that was granted meanwhile");
        assert_eq!(found(&[(300, 1_900)]), 1, "it had ended");
    }

    #[test]
    fn a_resource_is_not_free_while_any_reader_has_it() {
        let read = |from, to| Grant { reads: true, ..held(from, to) };
        let free =
            |grants: &[&Grant]| free(grants, MAX_TTL).iter().map(|free| (free.from, free.to)).collect::<Vec<_>>();
        let (long, short, writer) = (read(500, 3_000), read(600, 1_000), held(4_000, 5_000));
        assert_eq!(free(&[&long, &short, &writer])[1..], [(at(3_000), at(4_000)), (at(5_000), Moment::MAX)]);
    }

    #[test]
    fn a_writer_that_waits_for_readers_without_end_is_found() {
        let read = |began| Grant { reads: true, ..held(began, began + 10) };
        let found = |reader, wait| writers_are_served_beside_readers(&[read(reader)], &[wait], &[HEALTHY]);
        let starved = found(2_500, wait(2_000, 6_000, true));
        assert_eq!((starved.violations.len(), starved.worst), (1, Duration::from_secs(4)));
        assert_eq!(found(2_500, wait(2_000, 2_600, true)).violations.len(), 0);
        assert_eq!(found(1_900, wait(2_000, 6_000, true)).exercised, 0, "nobody read meanwhile");
        assert_eq!(found(2_500, Wait { reads: true, ..wait(2_000, 6_000, true) }).exercised, 0, "it reads itself");
    }

    #[test]
    fn a_waiter_that_is_not_served_is_found() {
        let violations = |wait| the_quick_resource_is_served(&[wait], &[HEALTHY]).violations.len();
        assert_eq!((violations(wait(2_000, 6_000, false)), violations(wait(2_000, 6_000, true))), (1, 1));
        assert_eq!(violations(wait(2_000, 4_000, true)), 0);
        assert_eq!(violations(Wait { resource: resource(QUICK_RESOURCE + 1), ..wait(2_000, 6_000, false) }), 0);
    }

    #[test]
    fn only_waits_that_could_be_reported_are_counted() {
        let exercised = |wait: Wait| {
            let free = free_locks_are_taken(&[], &[], std::slice::from_ref(&wait), &[HEALTHY], &[], MAX_TTL);
            (free.exercised, the_quick_resource_is_served(&[wait], &[HEALTHY]).exercised)
        };
        assert_eq!(exercised(wait(2_000, 2_010, true)), (1, 1), "it would have waited longer");
        assert_eq!(exercised(wait(2_000, 2_010, false)), (0, 0), "it gave up");
        assert_eq!(exercised(wait(19_000, 19_010, true)), (0, 0), "the window ends too soon");
    }
}
