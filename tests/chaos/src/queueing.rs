//! What those did who waited: whether the lines, the queues and the calls were in use at all, and how near the checks came.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::calls::Calls;
use super::grants::{Grant, Process};
use super::history::{Event, Record};
use super::stuck::Found;
use super::turns::turns;
use super::waits::Wait;
use lock_history::Moment;

/// What the checks found of those who wait.
pub(super) struct Watch {
    pub(super) free: Found<Duration>,
    pub(super) served: Found<Duration>,
    pub(super) passed: Found<usize>,
    pub(super) order: Found<Duration>,
}

/// What happened in lines and queues.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Queueing {
    /// The acquisitions that were to wait if need be.
    pub waits: u64,
    /// Of those, the ones that waited to the end of their time or failed, and the ones that their callers dropped.
    pub given_up: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// The grants that were handed over inside a process.
    pub handed_over: u64,
    /// The most holders of one turn.
    pub longest_run: usize,
    /// The turns of a process that waited already when another process began its turn before.
    pub passed_on: u64,
    /// The queues in which a process stood when it was killed.
    pub killed_in_queue: u64,
    /// The queues in which a process stood when it was stopped.
    pub stopped_in_queue: u64,
    /// What the servers called.
    pub calls: Calls,
    /// The longest time for which a resource was free while someone waited and the world was well.
    pub longest_free: Duration,
    /// The longest wait for the resource that nobody holds for long.
    pub longest_wait: Duration,
    /// The most turns of others while a process waited.
    pub most_passed: usize,
    /// The most by which one came later that was served first in its line.
    pub most_overtaken: Duration,
    /// The waits that each check would have found, had they not got on, in this order.
    pub watched: [u64; 4],
}

impl Queueing {
    pub(super) fn count(nemesis: &[Record], grants: &[Grant], waits: &[Wait], watch: &Watch, calls: Calls) -> Self {
        let mut queueing = Self {
            waits: waits.len() as u64,
            given_up: waits.iter().filter(|wait| !wait.granted && !wait.cut).count() as u64,
            dropped: waits.iter().filter(|wait| wait.dropped).count() as u64,
            calls,
            longest_free: watch.free.worst,
            longest_wait: watch.served.worst,
            most_passed: watch.passed.worst,
            most_overtaken: watch.order.worst,
            watched: [watch.free.watched, watch.served.watched, watch.passed.watched, watch.order.watched],
            ..Self::default()
        };
        for turns in turns(grants).into_values() {
            for turn in &turns {
                queueing.handed_over += turn.others.len() as u64;
                queueing.longest_run = queueing.longest_run.max(1 + turn.others.len());
            }
            let passed_on =
                |one: &Grant, next: &Grant| one.holder.process != next.holder.process && next.began < one.granted;
            let pairs = turns.windows(2).filter(|pair| passed_on(pair[0].first, pair[1].first));
            queueing.passed_on += pairs.count() as u64;
        }
        for Record { at, event } in nemesis {
            let Event::Fault { kind, service: Some(service), generation: Some(generation), .. } = event else {
                continue;
            };
            let queues = || in_queues((*service, *generation), *at, grants, waits);
            match kind.as_str() {
                "kill_service" => queueing.killed_in_queue += queues(),
                "stop_service" => queueing.stopped_in_queue += queues(),
                _ => {}
            }
        }
        queueing
    }

    /// What there must have been, and what was missing if there was none of it.
    pub(super) fn effects(&self) -> [(u64, &'static str); 13] {
        let Self { calls, watched: [free, served, passed, order], .. } = *self;
        [
            (self.given_up, "nobody who waited gave up"),
            (self.dropped, "no acquisition was dropped"),
            (self.handed_over, "no lock was handed over inside a process"),
            (self.passed_on, "no process waited for another"),
            (self.killed_in_queue, "no process was killed in a queue"),
            (self.stopped_in_queue, "no process was stopped in a queue"),
            (calls.turns.min(calls.nexts), "no server called"),
            (calls.lost.min(calls.late), "no call was lost, or late"),
            (calls.cut, "no connection was cut on which calls come"),
            (free, "nobody waited for so long that a free resource would have been found"),
            (served, "nobody waited for so long for the hurried resource that it would have been found"),
            (passed, "nobody waited for so many turns that a process that starves would have been found"),
            (order, "no two stood in a line together"),
        ]
    }
}

/// How long an attempt takes, and more. By then the lock was granted, or there is a place in the queues.
const ATTEMPT: Duration = Duration::from_millis(10);

/// In how many queues a process stood: it waited for longer than an attempt takes, and had not had the lock itself for as long.
fn in_queues(process: Process, at: Moment, grants: &[Grant], waits: &[Wait]) -> u64 {
    let own = grants.iter().filter(|grant| grant.holder.process == process && grant.granted <= at);
    let just_now = own.filter(|grant| at < grant.ends().plus(ATTEMPT));
    let had: HashSet<&str> = just_now.map(|grant| grant.resource.as_str()).collect();
    let waiting = waits.iter().filter(|wait| wait.process == process && wait.goes_on_at(at));
    let long = waiting.filter(|wait| at.since(wait.began) > ATTEMPT);
    let wanted: HashSet<&str> = long.map(|wait| wait.resource.as_str()).collect();
    wanted.difference(&had).count() as u64
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waits, given_up, dropped, handed_over, longest_run, passed_on, .. } = self;
        writeln!(f, "waits       {waits}, {given_up} given up, {dropped} of these dropped")?;
        writeln!(
            f,
            "turns       {passed_on} after another process, {handed_over} grants handed over, {longest_run} in a row"
        )?;
        let (killed, stopped) = (self.killed_in_queue, self.stopped_in_queue);
        writeln!(f, "queues      {killed} in which a process was killed, {stopped} in which one was stopped")?;
        let Calls { turns, nexts, late, lost, cut } = self.calls;
        writeln!(f, "calls       {turns} turns, {nexts} next ones, {late} late, {lost} lost, {cut} connections cut")?;
        let Self { longest_free, longest_wait, most_passed, most_overtaken, watched, .. } = self;
        write!(
            f,
            "when well   free for {longest_free:.1?} at most while someone waited, the hurried waited {longest_wait:.1?}, "
        )?;
        writeln!(f, "passed over {most_passed} times, overtaken by {most_overtaken:.1?}; watched {watched:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;

    #[test]
    fn who_waits_for_what_its_own_process_has_not_stands_in_a_queue() {
        let at = |millis: u64| Moment(millis * 1_000);
        let held = |service| Grant {
            ended: Some(at(140)),
            released: Some(at(140)),
            ..Grant::new(("r", 1), Holder::of((service, 0)), [at(0), at(0), at(900)])
        };
        let wait = |began, cut| Wait {
            resource: "r".into(),
            process: (0, 0),
            began: at(began),
            ended: at(200),
            cut,
            patience: Duration::from_secs(6),
            granted: false,
            dropped: false,
        };
        let queues = |moment, holder, wait| in_queues((0, 0), at(moment), &[held(holder)], &[wait]);
        assert_eq!(queues(120, 1, wait(100, false)), 1);
        assert_eq!(queues(210, 1, wait(100, false)), 0, "it was over");
        assert_eq!(queues(210, 1, wait(100, true)), 1, "its end was the process's");
        assert_eq!(queues(105, 1, wait(100, false)), 0, "its first attempt may be under way");
        assert_eq!(queues(120, 0, wait(100, false)), 0, "its own process has it: it stands in line there");
        assert_eq!(queues(145, 0, wait(100, false)), 0, "which may just be asking again");
        assert_eq!(queues(155, 0, wait(100, false)), 1);
    }
}
