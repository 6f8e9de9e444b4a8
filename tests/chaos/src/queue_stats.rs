//! Statistics of waiting: whether local queues, node queues and wake-ups were used at all, and how close the checks
//! came to a violation.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::crowd::MEMBERS;
use super::grants::{Grant, Process};
use super::handovers::chains;
use super::history::{Event, Record};
use super::liveness::Finding;
use super::waits::Wait;
use super::wakeups::Wakeups;
use lock_history::Moment;

/// The findings of the checks on waiting.
pub(super) struct Findings {
    pub(super) free: Finding<Duration>,
    pub(super) served: Finding<Duration>,
    pub(super) passed: Finding<usize>,
    pub(super) order: Finding<Duration>,
    pub(super) writers: Finding<Duration>,
}

/// How the queues were used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct QueueStats {
    /// The acquisitions that were willing to wait.
    pub waits: u64,
    /// Those of them that timed out, failed, or were dropped.
    pub given_up: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// The grants that were handed over inside a process.
    pub handed_over: u64,
    /// The most holders of one handover chain.
    pub longest_chain: usize,
    /// The chains of a process that was already waiting when another process began the chain before.
    pub passed_on: u64,
    /// The queues in which a process had a position when it was killed.
    pub killed_in_queue: u64,
    /// The queues in which a process had a position when it was stopped.
    pub stopped_in_queue: u64,
    /// The wake-ups that the servers sent.
    pub wakeups: Wakeups,
    /// The longest time for which a resource was free although someone waited and everything was healthy.
    pub longest_free: Duration,
    /// The longest wait for the quick resource.
    pub longest_wait: Duration,
    /// The most chains of other processes that passed one waiting process.
    pub most_passed: usize,
    /// The longest head start of a caller that was overtaken in its local queue.
    pub most_overtaken: Duration,
    /// The longest wait of a writer for the quick resource while others began to read it.
    pub longest_beside_readers: Duration,
    /// How many waits each check could have reported, in the order of the five figures above.
    pub exercised: [u64; 5],
}

impl QueueStats {
    pub(super) fn count(
        nemesis: &[Record],
        grants: &[Grant],
        waits: &[Wait],
        findings: &Findings,
        wakeups: Wakeups,
    ) -> Self {
        let mut stats = Self {
            waits: waits.len() as u64,
            given_up: waits.iter().filter(|wait| !wait.granted && !wait.killed).count() as u64,
            dropped: waits.iter().filter(|wait| wait.dropped).count() as u64,
            wakeups,
            longest_free: findings.free.worst,
            longest_wait: findings.served.worst,
            most_passed: findings.passed.worst,
            most_overtaken: findings.order.worst,
            longest_beside_readers: findings.writers.worst,
            exercised: [
                findings.free.exercised,
                findings.served.exercised,
                findings.passed.exercised,
                findings.order.exercised,
                findings.writers.exercised,
            ],
            ..Self::default()
        };
        for chains in chains(grants).into_values() {
            for chain in &chains {
                stats.handed_over += chain.handed_over.len() as u64;
                stats.longest_chain = stats.longest_chain.max(1 + chain.handed_over.len());
            }
            let passed_on =
                |one: &Grant, next: &Grant| one.holder.process != next.holder.process && next.began < one.granted;
            let pairs = chains.windows(2).filter(|pair| passed_on(pair[0].first, pair[1].first));
            stats.passed_on += pairs.count() as u64;
        }
        for Record { at, event } in nemesis {
            let Event::Fault { kind, service: Some(service), generation: Some(generation), .. } = event else {
                continue;
            };
            // What happens to the crowd is counted elsewhere.
            if MEMBERS.contains(service) {
                continue;
            }
            let queues = || in_queues((*service, *generation), *at, grants, waits);
            match kind.as_str() {
                "kill_service" => stats.killed_in_queue += queues(),
                "stop_service" => stats.stopped_in_queue += queues(),
                _ => {}
            }
        }
        stats
    }

    /// What a run must contain, and what to report if it does not.
    pub(super) fn effects(&self) -> [(u64, &'static str); 15] {
        let Self { wakeups, exercised: [free, served, passed, order, writers], .. } = *self;
        [
            (self.given_up, "no waiter gave up"),
            (self.dropped, "no acquisition was dropped"),
            (self.handed_over, "no lock was handed over inside a process"),
            (self.passed_on, "no process waited for another"),
            (self.killed_in_queue, "no process was killed in a queue"),
            (self.stopped_in_queue, "no process was stopped in a queue"),
            (wakeups.reserved.min(wakeups.next), "the servers did not send both kinds of wake-ups"),
            (wakeups.lost.min(wakeups.late), "no wake-up was lost, or none was late"),
            (wakeups.cut, "no connection for wake-ups was cut"),
            (wakeups.requests_cut, "no connection for requests was cut"),
            (free, "nobody waited for long enough to show that a resource stays free"),
            (served, "nobody waited for the quick resource for long enough to show that waiters are not served"),
            (passed, "nobody waited through enough chains to show that a process starves"),
            (order, "no two callers were in a local queue together"),
            (writers, "no writer waited for the quick resource while others began to read it"),
        ]
    }
}

/// Longer than an attempt takes. After this, the lock was granted, or the process has its queue positions.
const ATTEMPT: Duration = Duration::from_millis(10);

/// In how many queues a process had a position: it waited for longer than an attempt takes, and had not had the lock
/// itself for as long.
fn in_queues(process: Process, at: Moment, grants: &[Grant], waits: &[Wait]) -> u64 {
    let own = grants.iter().filter(|grant| grant.holder.process == process && grant.granted <= at);
    let recent = own.filter(|grant| at < grant.ends().plus(ATTEMPT));
    let had: HashSet<&str> = recent.map(|grant| grant.resource.as_str()).collect();
    let waiting = waits.iter().filter(|wait| wait.process == process && wait.was_open_at(at));
    let long = waiting.filter(|wait| at.since(wait.began) > ATTEMPT);
    let wanted: HashSet<&str> = long.map(|wait| wait.resource.as_str()).collect();
    wanted.difference(&had).count() as u64
}

impl fmt::Display for QueueStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waits, given_up, dropped, handed_over, longest_chain, passed_on, .. } = self;
        writeln!(f, "waits       {waits}, {given_up} given up, {dropped} of these dropped")?;
        writeln!(
            f,
            "chains      {passed_on} after another process, {handed_over} grants handed over, {longest_chain} holders at most"
        )?;
        let (killed, stopped) = (self.killed_in_queue, self.stopped_in_queue);
        writeln!(f, "queues      {killed} in which a process was killed, {stopped} in which one was stopped")?;
        let Wakeups { reserved, next, late, lost, cut, requests_cut } = self.wakeups;
        write!(f, "wake-ups    {reserved} reserved, {next} next, {late} late, {lost} lost; ")?;
        writeln!(f, "{cut} of their connections cut, and {requests_cut} of those for requests")?;
        let Self { longest_free, longest_wait, most_passed, most_overtaken, longest_beside_readers, exercised, .. } =
            self;
        write!(
            f,
            "healthy     free for {longest_free:.1?} at most while someone waited, quick resource waited for {longest_wait:.1?}, "
        )?;
        writeln!(
            f,
            "passed over {most_passed} times, overtaken by {most_overtaken:.1?}, a writer waited for {longest_beside_readers:.1?} \
             beside busy readers; could have reported {exercised:?}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;

    #[test]
    fn a_process_is_queued_for_locks_that_it_waits_for_and_does_not_hold() {
        let at = |millis: u64| Moment(millis * 1_000);
        let held = |service| Grant {
            ended: Some(at(140)),
            released: Some(at(140)),
            ..Grant::new(("r", 1), Holder::of((service, 0)), [at(0), at(0), at(900)])
        };
        let wait = |began, killed| Wait {
            resource: "r".into(),
            process: (0, 0),
            reads: false,
            began: at(began),
            ended: at(200),
            killed,
            max_wait: Duration::from_secs(6),
            granted: false,
            dropped: false,
        };
        let queues = |moment, holder, wait| in_queues((0, 0), at(moment), &[held(holder)], &[wait]);
        assert_eq!(queues(120, 1, wait(100, false)), 1);
        assert_eq!(queues(210, 1, wait(100, false)), 0, "it was over");
        assert_eq!(queues(210, 1, wait(100, true)), 1, "it ended with its process");
        assert_eq!(queues(105, 1, wait(100, false)), 0, "its first attempt may be under way");
        assert_eq!(queues(120, 0, wait(100, false)), 0, "its own process has it: it is in the local queue");
        assert_eq!(queues(145, 0, wait(100, false)), 0, "its process may just be asking again");
        assert_eq!(queues(155, 0, wait(100, false)), 1);
    }
}
