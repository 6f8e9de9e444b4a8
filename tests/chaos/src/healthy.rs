//! When the world is well: what waits must get on then.

use std::time::Duration;

use lock_core::node::RESERVATION_TTL;

use super::MAX_TTL;
use super::fault::Kind;
use super::history::{Event, Record};
use lock_history::Moment;

/// The phase in which nothing is hurt.
pub(super) const QUIET: &str = "quiet";
/// The phase in which no service hears when it is called, and nothing else is hurt.
pub(super) const DEAF: &str = "deaf";

/// How long what was hurt has effects after it has healed. A key that nobody will release lives for a time to live: of a
/// holder that was killed, or of a request that arrived when a link was well again. Then the turns come of those that were
/// killed in the queues: a few, and each costs a turn's life. And services that have just started must meet the servers.
const SETTLE: Duration = MAX_TTL.saturating_add(RESERVATION_TTL.saturating_mul(6));

/// Some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

impl Window {
    pub(super) fn length(self) -> Duration {
        self.to.since(self.from)
    }

    /// The part from a moment on, if there is one.
    pub(super) fn after(self, from: Moment) -> Option<Self> {
        let from = from.max(self.from);
        (from < self.to).then_some(Self { from, ..self })
    }

    /// The part up to a moment, if there is one.
    pub(super) fn before(self, to: Moment) -> Option<Self> {
        let to = to.min(self.to);
        (self.from < to).then_some(Self { to, ..self })
    }

    pub(super) fn contains(self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// When there were only such phases, and what was hurt before had settled. From the nemesis's history.
pub(super) fn windows(nemesis: &[Record], phases: &[&str]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut began = None;
    // Everything has just started.
    let mut settled = nemesis.first().map_or(Moment(0), |first| first.at.plus(SETTLE));
    let of_calls = |name: &str| Kind::OF_CALLS.iter().any(|kind| kind.name() == name);
    for Record { at, event } in nemesis {
        match event {
            Event::Phase { name } if phases.contains(&name.as_str()) => _ = began.get_or_insert(*at),
            Event::Phase { .. } => {
                let well = began.take().map(|began| Window { from: settled.max(began), to: *at });
                windows.extend(well.filter(|window| window.from < window.to));
            }
            Event::Fault { kind, .. } | Event::Healed { kind, .. } if !of_calls(kind) => settled = at.plus(SETTLE),
            _ => {}
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(at: u64, name: &str) -> Record {
        Record { at: Moment(at), event: Event::Phase { name: name.to_owned() } }
    }

    fn healed(at: u64, kind: Kind) -> Record {
        let kind = kind.name().to_owned();
        Record { at: Moment(at), event: Event::Healed { kind, server: None, service: Some(0) } }
    }

    #[test]
    fn a_window_begins_when_what_was_hurt_has_settled() {
        let history = [
            phase(0, QUIET),
            phase(4_000_000, "faults"),
            healed(4_500_000, Kind::StopService),
            phase(5_000_000, QUIET),
            phase(9_000_000, DEAF),
            healed(9_500_000, Kind::LoseCalls),
            phase(10_000_000, "end"),
        ];
        let settled = |moment: u64, to: u64| Window { from: Moment(moment).plus(SETTLE), to: Moment(to) };
        assert_eq!(windows(&history, &[QUIET]), [settled(0, 4_000_000), settled(4_500_000, 9_000_000)]);
        assert_eq!(windows(&history, &[QUIET, DEAF]), [settled(0, 4_000_000), settled(4_500_000, 10_000_000)]);
        assert_eq!(windows(&history, &[DEAF]), [Window { from: Moment(9_000_000), to: Moment(10_000_000) }]);
    }

    #[test]
    fn a_phase_that_was_too_short_for_it_is_no_window() {
        let history = [healed(9, Kind::CutLink), phase(10, QUIET), phase(1_000, "faults")];
        assert_eq!(windows(&history, &[QUIET]), []);
    }
}
