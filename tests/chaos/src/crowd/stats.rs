use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::super::waits::Wait;
use super::absence::{Absence, Kind};
use super::checks::in_line;

/// What happened to the crowd.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CrowdStats {
    /// The processes that were killed in line.
    pub killed: u64,
    /// The processes that were frozen in line.
    pub frozen: u64,
    /// Those of them that were the first.
    pub frozen_at_head: u64,
    /// The processes in line of which connections were cut.
    pub cut: u64,
    /// The longest time for which the lock was free while one waited that was not hit.
    pub longest_free: Duration,
    /// The most that it was free for longer than reservations and stalls explain.
    pub most_margin: Duration,
    /// The longest wait of a process that was not hit.
    pub longest_wait: Duration,
    /// The most that passed one process that was not hit.
    pub most_passed: usize,
    /// How often the lock was free while a reservation had to pass, and how many waits the two other checks could have reported.
    pub exercised: [u64; 3],
}

impl CrowdStats {
    pub(super) fn count(absences: &[Absence], waits: &[&Wait]) -> Self {
        let in_line = |kind| absences.iter().filter(move |it| it.kind == kind && in_line(waits, it).is_some());
        let first = |absence: &&Absence| {
            let open = waits.iter().filter(|wait| wait.was_open_at(absence.window.from));
            // Killed processes are in no line.
            let open = open.filter(|wait| !wait.killed || wait.process == absence.process);
            open.min_by_key(|wait| wait.began).is_some_and(|wait| wait.process == absence.process)
        };
        Self {
            killed: in_line(Kind::Killed).count() as u64,
            frozen: in_line(Kind::Frozen).count() as u64,
            frozen_at_head: in_line(Kind::Frozen).filter(first).count() as u64,
            cut: in_line(Kind::Cut).count() as u64,
            ..Self::default()
        }
    }

    /// What a run must contain, and what to report if it does not.
    pub(in super::super) fn effects(&self) -> [(u64, &'static str); 7] {
        let Self { killed, frozen, frozen_at_head, cut, exercised: [free, served, passed], .. } = *self;
        [
            (killed, "nobody of the crowd was killed in line"),
            (frozen, "nobody of the crowd was frozen in line"),
            (frozen_at_head, "nobody of the crowd was frozen at the head of the line"),
            (cut, "nobody of the crowd lost its connections in line"),
            (free, "no reservation of one of the crowd that was hit had to pass"),
            (served, "nobody of the crowd was willing to wait for long"),
            (passed, "nobody of the crowd waited through enough chains to show that it starves"),
        ]
    }
}

impl fmt::Display for CrowdStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            killed,
            frozen,
            frozen_at_head,
            cut,
            longest_free,
            most_margin,
            longest_wait,
            most_passed,
            exercised,
        } = self;
        write!(
            f,
            "crowd       {killed} killed in line, {frozen} frozen in line, {frozen_at_head} of these as the first; "
        )?;
        writeln!(f, "connections cut of {cut}")?;
        write!(
            f,
            "            free for {longest_free:.1?} at most while one waited that was not hit, {most_margin:.1?} unexplained; "
        )?;
        write!(f, "waited for {longest_wait:.1?}, passed over {most_passed} times; ")?;
        writeln!(f, "could have reported {exercised:?}")
    }
}
