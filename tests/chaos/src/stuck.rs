//! Whether those who wait get on while the world is well.

use std::time::Duration;

use super::grants::Grant;
use super::healthy::Window;
use super::waits::Wait;
use super::{HURRIED, MAX_TTL, NODE_TIMEOUT, RESOURCES, SERVICES, TASKS, resource};
use lock_history::{Moment, by_resource};

/// The engine's: whoever is not called, and does not know when to try again, tries after this.
const TIMER: Duration = Duration::from_secs(1);
/// What a machine with much else to do may add.
const MARGIN: Duration = Duration::from_millis(900);
/// A resource that is free is taken within this, if someone waits: by an attempt at the latest when the timer of the first in
/// a line runs out. Calls make it faster, and are not needed for it.
const FREE: Duration = TIMER.saturating_add(NODE_TIMEOUT).saturating_add(MARGIN);
/// How long one holder of the hurried resource may take, with all that lies between it and the next: the work takes 8 ms.
const ONE_OF_THEM: Duration = Duration::from_millis(50);
/// How many want it.
const ALL_OF_THEM: u32 = 12;
const _: () = assert!(ALL_OF_THEM as usize == SERVICES * TASKS);
/// Within this, everyone who waits for the hurried resource is served: the timer once, and all others once before it.
const SERVED: Duration = TIMER.saturating_add(ONE_OF_THEM.saturating_mul(ALL_OF_THEM)).saturating_add(MARGIN);

/// What a check found.
#[derive(Debug, Default)]
pub(super) struct Found<T> {
    /// How near it came to a violation.
    pub(super) worst: T,
    /// The waits that it would have found, had they not got on. If there are none it shows nothing.
    pub(super) watched: u64,
    pub(super) violations: Vec<String>,
}

/// While someone waits, a resource does not stay free for long.
pub(super) fn free_is_taken(grants: &[Grant], waits: &[Wait], windows: &[Window]) -> Found<Duration> {
    let mut found = Found::<Duration>::default();
    let by_resource = by_resource(grants, |grant| grant.granted);
    for number in 0..RESOURCES {
        let resource = resource(number);
        let free = free(by_resource.get(resource.as_str()).map_or(&[], Vec::as_slice));
        for wait in waits.iter().filter(|wait| wait.resource == resource) {
            for window in windows {
                found.watched += u64::from(wait.at_most_within(*window).is_some_and(|most| most.length() > FREE));
                let Some(waiting) = wait.within(*window) else { continue };
                let first = free.partition_point(|free| free.to <= waiting.from);
                let while_it_waits =
                    free[first..].iter().map_while(|free| free.after(waiting.from)?.before(waiting.to));
                let Some(longest) = while_it_waits.max_by_key(|free| free.length()) else { continue };
                found.worst = found.worst.max(longest.length());
                if longest.length() > FREE {
                    let violation = format!("{resource} stayed free for {:?}: {longest:?}, {wait:?}", longest.length());
                    found.violations.push(violation);
                }
            }
        }
    }
    found
}

/// When nobody could hold a resource any more, by its grants in the order in which they were granted.
fn free(grants: &[&Grant]) -> Vec<Window> {
    let (mut free, mut from) = (Vec::new(), Moment(0));
    for grant in grants {
        free.extend((from < grant.granted).then_some(Window { from, to: grant.granted }));
        // Whoever holds it shows that it was gone before. One that was over before it was seen was so at any time.
        from = if grant.was_held() { grant.gone_by(MAX_TTL) } else { from.max(grant.gone_by(MAX_TTL)) };
    }
    free.push(Window { from, to: Moment::MAX });
    free
}

/// Who waits for what nobody holds for long is served soon, whoever else wants it.
pub(super) fn the_hurried_are_served(waits: &[Wait], windows: &[Window]) -> Found<Duration> {
    let mut found = Found::<Duration>::default();
    for wait in waits.iter().filter(|wait| wait.resource == resource(HURRIED)) {
        for window in windows {
            found.watched += u64::from(wait.at_most_within(*window).is_some_and(|most| most.length() > SERVED));
            let Some(waiting) = wait.within(*window) else { continue };
            found.worst = found.worst.max(waiting.length());
            if waiting.length() > SERVED {
                found.violations.push(format!("not served in {:?}: {wait:?} in {window:?}", waiting.length()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::PATIENT;
    use super::super::grants::Holder;
    use super::*;

    const WELL: Window = Window { from: Moment(1_000_000), to: Moment(20_000_000) };

    fn at(millis: u64) -> Moment {
        Moment(millis * 1_000)
    }

    fn wait(began: u64, ended: u64, granted: bool) -> Wait {
        Wait {
            resource: resource(HURRIED),
            process: (0, 0),
            began: at(began),
            ended: at(ended),
            cut: false,
            patience: PATIENT,
            granted,
            dropped: false,
        }
    }

    fn held(from: u64, to: u64) -> Grant {
        let times = [at(from), at(from), at(to)];
        Grant { released: Some(at(to)), ..Grant::new((resource(HURRIED), from), Holder::of((1, 0)), times) }
    }

    #[test]
    fn what_stays_free_while_someone_waits_is_found() {
        let stuck = |grants: &[Grant], wait| free_is_taken(grants, &[wait], &[WELL]).violations.len();
        let grants = [held(500, 2_000), held(5_000, 6_000)];
        assert_eq!(stuck(&grants, wait(1_500, 5_000, true)), 1, "free from 2 s to 5 s");
        assert_eq!(stuck(&grants, wait(3_500, 5_000, true)), 0, "it did not wait for so long");
        assert_eq!(stuck(&grants, wait(6_100, 9_000, false)), 1, "nobody ever got it again");
        assert_eq!(stuck(&[held(500, 2_000), held(3_000, 6_000)], wait(1_500, 6_000, true)), 0);
        assert_eq!(stuck(&[], wait(0, 6_000, false)), 1);
        let abandoned = Grant { released: None, ..held(500, 2_000) };
        assert_eq!(stuck(&[abandoned.clone(), held(5_000, 6_000)], wait(1_500, 5_000, true)), 0, "its key lived on");
        assert_eq!(stuck(&[abandoned, held(5_100, 6_000)], wait(1_500, 5_100, true)), 1, "but not for so long");
        assert_eq!(stuck(&grants, wait(17_500, 99_000, false)), 1, "up to the end of the window");
        assert_eq!(stuck(&grants, wait(18_500, 99_000, false)), 0, "nobody knows what happened later");
        assert_eq!(free_is_taken(&grants, &[wait(1_500, 5_000, true)], &[]).violations, Vec::<String>::new());
    }

    #[test]
    fn who_is_not_served_is_found() {
        let hungry = |wait| the_hurried_are_served(&[wait], &[WELL]).violations.len();
        assert_eq!((hungry(wait(2_000, 6_000, false)), hungry(wait(2_000, 6_000, true))), (1, 1));
        assert_eq!(hungry(wait(2_000, 4_000, true)), 0);
        assert_eq!(hungry(Wait { resource: resource(HURRIED + 1), ..wait(2_000, 6_000, false) }), 0);
    }

    #[test]
    fn only_those_are_watched_that_would_be_found() {
        let watched = |wait: Wait| {
            let free = free_is_taken(&[], std::slice::from_ref(&wait), &[WELL]);
            (free.watched, the_hurried_are_served(&[wait], &[WELL]).watched)
        };
        assert_eq!(watched(wait(2_000, 2_010, true)), (1, 1), "it had patience left");
        assert_eq!(watched(wait(2_000, 2_010, false)), (0, 0), "it gave up");
        assert_eq!(watched(wait(19_000, 19_010, true)), (0, 0), "the window ends too soon");
    }
}
