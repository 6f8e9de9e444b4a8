//! Fairness: waiters are served in order while everything is healthy and wake-ups arrive.

use std::collections::HashMap;
use std::time::Duration;

use super::LONG_WAIT;
use super::grants::{Grant, Process};
use super::handovers::{HandoverChain, chains};
use super::liveness::Finding;
use super::waits::Wait;
use super::windows::Window;

/// How many reservations a process may miss because the machine is busy: it is woken, and does not come for 100 ms.
const MAX_MISSED: usize = 3;
/// How many chains of other processes may pass a waiting process if there are this many in all: one of each process that came before it, and
/// one more of each for every reservation that it missed. It keeps its queue position, which depends on when it began to wait.
const fn max_passed(processes: usize) -> usize {
    (processes - 1) * (1 + MAX_MISSED)
}
/// A caller that began this much later is behind in the local queue. Within less, its task may have been interrupted on
/// the way, as may that of one of two readers whom the same grant let in.
const CLEARLY_LATER: Duration = Duration::from_millis(100);

/// No process waits while others take the lock again and again. `processes` of them want it in all.
pub(super) fn no_process_starves(
    grants: &[Grant],
    waits: &[Wait],
    windows: &[Window],
    processes: usize,
) -> Finding<usize> {
    let max_passed = max_passed(processes);
    let mut found = Finding::<usize>::default();
    let mut chains = chains(grants);
    chains.values_mut().for_each(|chains| chains.sort_by_key(|chain| chain.first.granted));
    for wait in waits {
        let chains = chains.get(wait.resource.as_str()).map_or(&[][..], Vec::as_slice);
        for window in windows {
            let most = wait.longest_within(*window).map_or(&[][..], |most| begun_within(chains, most));
            found.exercised += u64::from(most.len() > max_passed);
            let Some(waiting) = wait.within(*window) else { continue };
            let mut passed = 0;
            for chain in begun_within(chains, waiting) {
                if chain.process() != wait.process {
                    passed += 1;
                } else if chain.first.holder.may_wait {
                    passed = 0;
                }
                found.worst = found.worst.max(passed);
                if passed == max_passed + 1 {
                    found
                        .violations
                        .push(format!("passed over by {passed} chains of other processes: {wait:?} in {window:?}"));
                }
            }
        }
    }
    found
}

/// The chains that begin in a window, from those of one resource in order of time.
fn begun_within<'a, 'b>(chains: &'a [HandoverChain<'b>], window: Window) -> &'a [HandoverChain<'b>] {
    let before = |end| chains.partition_point(|chain| chain.first.granted < end);
    &chains[before(window.from)..before(window.to)]
}

/// Inside a process, callers are served in the order in which they began to wait.
pub(super) fn local_queues_are_fifo(waits: &[Wait], windows: &[Window]) -> Finding<Duration> {
    let mut queues: HashMap<(&str, Process), Vec<&Wait>> = HashMap::new();
    for wait in waits {
        queues.entry((&wait.resource, wait.process)).or_default().push(wait);
    }
    let mut found = Finding::<Duration>::default();
    for queue in queues.into_values() {
        for (position, served) in queue.iter().enumerate().filter(|(_, wait)| wait.granted) {
            let at = served.ended;
            let Some(window) = windows.iter().find(|window| window.contains(at)) else { continue };
            let earlier = |wait: &Wait| served.began.since(wait.began);
            let together = queue[..position].iter().rev().take_while(|wait| earlier(wait) < LONG_WAIT);
            for wait in together.filter(|wait| window.contains(wait.began) && wait.was_open_at(served.began)) {
                found.exercised += u64::from(earlier(wait) > CLEARLY_LATER);
                let let_in_together =
                    wait.reads && served.reads && wait.granted && wait.ended.since(at) < CLEARLY_LATER;
                let overtaken = wait.was_open_at(at) && !let_in_together;
                if overtaken {
                    found.worst = found.worst.max(earlier(wait));
                }
                if overtaken && earlier(wait) > CLEARLY_LATER {
                    found.violations.push(format!("overtaken in the local queue: {wait:?} by {served:?}"));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::SERVICES;
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    const MAX_PASSED: usize = max_passed(SERVICES);
    const HEALTHY: Window = Window { from: Moment(1_000_000), to: Moment(20_000_000) };

    fn wait(process: usize, began: u64, ended: u64) -> Wait {
        Wait {
            resource: "r".into(),
            process: (process, 0),
            reads: false,
            began: Moment(began * 1_000),
            ended: Moment(ended * 1_000),
            killed: false,
            max_wait: LONG_WAIT,
            granted: true,
            dropped: false,
        }
    }

    /// Chains of 10 ms each, the first at 2 s, of these services.
    fn chains_of(services: &[usize]) -> Vec<Grant> {
        let chain = |(index, service): (usize, &usize)| {
            let at = |millis: u64| Moment((2_000 + index as u64 * 10 + millis) * 1_000);
            let granted = Grant::new(("r", at(0).0), Holder::of((*service, 0)), [Moment(0), at(0), at(900)]);
            Grant { ended: Some(at(8)), released: Some(at(8)), ..granted }
        };
        services.iter().enumerate().map(chain).collect()
    }

    #[test]
    fn starvation_is_found() {
        let starves =
            |services: &[usize], wait: Wait| no_process_starves(&chains_of(services), &[wait], &[HEALTHY], SERVICES);
        let too_many = vec![1; MAX_PASSED + 1];
        assert_eq!(starves(&too_many, wait(0, 1_500, 5_000)).violations.len(), 1);
        assert_eq!(starves(&too_many, wait(0, 2_005, 5_000)).violations, Vec::<String>::new(), "it came later");
        assert_eq!(starves(&too_many[1..], wait(0, 1_500, 5_000)).violations, Vec::<String>::new());
        let mut served = [too_many.clone(), too_many.clone()].concat();
        served[MAX_PASSED] = 0;
        served.truncate(2 * MAX_PASSED + 1);
        assert_eq!(
            starves(&served, wait(0, 1_500, 5_000)).worst,
            MAX_PASSED,
            "another of its tasks was served in between"
        );
        let mut without_wait = chains_of(&[0]).remove(0);
        without_wait.holder.may_wait = false;
        let mut grants = chains_of(&too_many);
        grants[1] = Grant { token: grants[1].token, granted: grants[1].granted, ..without_wait };
        let found = no_process_starves(&grants, &[wait(0, 1_500, 5_000)], &[HEALTHY], SERVICES);
        assert_eq!(found.worst, MAX_PASSED, "a caller that does not wait does not count");
    }

    #[test]
    fn a_wait_counts_if_others_had_enough_chains() {
        let exercised = |chains| {
            no_process_starves(&chains_of(&vec![1; chains]), &[wait(0, 1_500, 1_510)], &[HEALTHY], SERVICES).exercised
        };
        assert_eq!((exercised(MAX_PASSED), exercised(MAX_PASSED + 1)), (0, 1));
    }

    #[test]
    fn overtaking_in_a_local_queue_is_found() {
        let found = |first, second| local_queues_are_fifo(&[first, second], &[HEALTHY]);
        assert_eq!(found(wait(0, 2_000, 3_000), wait(0, 2_200, 2_900)).violations.len(), 1);
        let in_order = found(wait(0, 2_000, 2_800), wait(0, 2_200, 2_900));
        assert_eq!((in_order.violations.len(), in_order.exercised), (0, 1));
        assert_eq!(found(wait(0, 2_000, 3_000), wait(1, 2_200, 2_900)).violations.len(), 0, "another process");
        assert_eq!(found(wait(0, 2_000, 3_000), wait(0, 2_050, 2_900)).violations.len(), 0, "nearly at the same time");
        let reader = |began, ended| Wait { reads: true, ..wait(0, began, ended) };
        assert_eq!(found(reader(2_000, 2_901), reader(2_200, 2_900)).violations.len(), 0, "one grant let both in");
        assert_eq!(found(reader(2_000, 3_100), reader(2_200, 2_900)).violations.len(), 1, "the earlier came later");
        assert_eq!(
            found(wait(0, 500, 3_000), wait(0, 2_200, 2_900)).violations.len(),
            0,
            "it began outside the window"
        );
    }
}
