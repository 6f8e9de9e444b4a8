//! Whether those who wait are served in turn, while the world is well and everyone hears when it is called.

use std::collections::HashMap;
use std::time::Duration;

use super::grants::{Grant, Process};
use super::healthy::Window;
use super::stuck::Found;
use super::turns::{Turn, turns};
use super::waits::Wait;
use super::{PATIENT, SERVICES};

/// How often a process misses its turn on a machine with much else to do: it is called, and does not come for 100 ms.
const MISSED: usize = 3;
/// The turns that others have while a process waits: each other process that came before it has one, and one more for each turn
/// that it missed. It keeps its place for all that: the queues go by since when it waits.
const PASSED: usize = (SERVICES - 1) * (1 + MISSED);
/// Who came so much later stands behind in the line. Less, and a task may have been interrupted on its way into it.
const LATER: Duration = Duration::from_millis(100);

/// No process waits while others have turn after turn.
pub(super) fn no_process_starves(grants: &[Grant], waits: &[Wait], windows: &[Window]) -> Found<usize> {
    let mut found = Found::<usize>::default();
    let mut turns = turns(grants);
    turns.values_mut().for_each(|turns| turns.sort_by_key(|turn| turn.first.granted));
    for wait in waits {
        let turns = turns.get(wait.resource.as_str()).map_or(&[][..], Vec::as_slice);
        for window in windows {
            let most = wait.at_most_within(*window).map_or(&[][..], |most| granted_within(turns, most));
            found.watched += u64::from(most.len() > PASSED);
            let Some(waiting) = wait.within(*window) else { continue };
            let mut passed = 0;
            for turn in granted_within(turns, waiting) {
                if turn.process() != wait.process {
                    passed += 1;
                } else if turn.first.holder.in_line {
                    passed = 0;
                }
                found.worst = found.worst.max(passed);
                if passed == PASSED + 1 {
                    found.violations.push(format!("passed over by {passed} turns of others: {wait:?} in {window:?}"));
                }
            }
        }
    }
    found
}

/// The turns that begin in a window, of those of one resource in the order in which they do.
fn granted_within<'a, 'b>(turns: &'a [Turn<'b>], window: Window) -> &'a [Turn<'b>] {
    let before = |end| turns.partition_point(|turn| turn.first.granted < end);
    &turns[before(window.from)..before(window.to)]
}

/// Inside a process, who came first is served first.
pub(super) fn lines_keep_their_order(waits: &[Wait], windows: &[Window]) -> Found<Duration> {
    let mut lines: HashMap<(&str, Process), Vec<&Wait>> = HashMap::new();
    for wait in waits {
        lines.entry((&wait.resource, wait.process)).or_default().push(wait);
    }
    let mut found = Found::<Duration>::default();
    for line in lines.into_values() {
        for (place, served) in line.iter().enumerate().filter(|(_, wait)| wait.granted) {
            let at = served.ended;
            let Some(window) = windows.iter().find(|window| window.contains(at)) else { continue };
            let earlier = |wait: &Wait| served.began.since(wait.began);
            let together = line[..place].iter().rev().take_while(|wait| earlier(wait) < PATIENT);
            for wait in together.filter(|wait| window.contains(wait.began) && wait.goes_on_at(served.began)) {
                found.watched += u64::from(earlier(wait) > LATER);
                if wait.goes_on_at(at) {
                    found.worst = found.worst.max(earlier(wait));
                }
                if wait.goes_on_at(at) && earlier(wait) > LATER {
                    found.violations.push(format!("overtaken in the line: {wait:?} by {served:?}"));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    const WELL: Window = Window { from: Moment(1_000_000), to: Moment(20_000_000) };

    fn wait(process: usize, began: u64, ended: u64) -> Wait {
        Wait {
            resource: "r".into(),
            process: (process, 0),
            began: Moment(began * 1_000),
            ended: Moment(ended * 1_000),
            cut: false,
            patience: PATIENT,
            granted: true,
            dropped: false,
        }
    }

    /// Turns of 10 ms each, the first at 2 s, of these services.
    fn turns_of(services: &[usize]) -> Vec<Grant> {
        let turn = |(number, service): (usize, &usize)| {
            let at = |millis: u64| Moment((2_000 + number as u64 * 10 + millis) * 1_000);
            let granted = Grant::new(("r", at(0).0), Holder::of((*service, 0)), [Moment(0), at(0), at(900)]);
            Grant { ended: Some(at(8)), released: Some(at(8)), ..granted }
        };
        services.iter().enumerate().map(turn).collect()
    }

    #[test]
    fn a_process_that_starves_is_found() {
        let starves = |services: &[usize], wait: Wait| no_process_starves(&turns_of(services), &[wait], &[WELL]);
        let too_often = vec![1; PASSED + 1];
        assert_eq!(starves(&too_often, wait(0, 1_500, 5_000)).violations.len(), 1);
        assert_eq!(starves(&too_often, wait(0, 2_005, 5_000)).violations, Vec::<String>::new(), "it came later");
        assert_eq!(starves(&too_often[1..], wait(0, 1_500, 5_000)).violations, Vec::<String>::new());
        let mut served = [too_often.clone(), too_often.clone()].concat();
        served[PASSED] = 0;
        served.truncate(2 * PASSED + 1);
        assert_eq!(starves(&served, wait(0, 1_500, 5_000)).worst, PASSED, "another task of it was served in between");
        let mut past_the_line = turns_of(&[0]).remove(0);
        past_the_line.holder.in_line = false;
        let mut grants = turns_of(&too_often);
        grants[1] = Grant { token: grants[1].token, granted: grants[1].granted, ..past_the_line };
        let found = no_process_starves(&grants, &[wait(0, 1_500, 5_000)], &[WELL]);
        assert_eq!(found.worst, PASSED, "one that did not stand in line is no turn of the line");
    }

    #[test]
    fn a_wait_is_watched_if_others_had_enough_turns() {
        let watched = |turns| no_process_starves(&turns_of(&vec![1; turns]), &[wait(0, 1_500, 1_510)], &[WELL]).watched;
        assert_eq!((watched(PASSED), watched(PASSED + 1)), (0, 1));
    }

    #[test]
    fn one_that_is_overtaken_in_its_line_is_found() {
        let found = |first, second| lines_keep_their_order(&[first, second], &[WELL]);
        assert_eq!(found(wait(0, 2_000, 3_000), wait(0, 2_200, 2_900)).violations.len(), 1);
        let in_order = found(wait(0, 2_000, 2_800), wait(0, 2_200, 2_900));
        assert_eq!((in_order.violations.len(), in_order.watched), (0, 1));
        assert_eq!(found(wait(0, 2_000, 3_000), wait(1, 2_200, 2_900)).violations.len(), 0, "another process");
        assert_eq!(found(wait(0, 2_000, 3_000), wait(0, 2_050, 2_900)).violations.len(), 0, "nearly at the same time");
        assert_eq!(found(wait(0, 500, 3_000), wait(0, 2_200, 2_900)).violations.len(), 0, "it began in bad times");
    }
}
