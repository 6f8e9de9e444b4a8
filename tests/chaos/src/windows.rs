//! The healthy times of a run, in which waiters must make progress.

use std::time::Duration;

use lock_core::node::RESERVATION_TTL;

use super::MAX_TTL;
use super::fault::Kind;
use super::grants::Process;
use super::history::{Event, Record};
use lock_history::Moment;

/// The phase without faults.
pub(super) const QUIET: &str = "quiet";
/// The phase in which no wake-ups arrive, and nothing else is wrong.
pub(super) const NO_WAKEUPS: &str = "no wake-ups";

/// The phase in which no wake-ups arrive at one service, and nothing else is wrong.
pub(super) const ONE_UNCALLED: &str = "no wake-ups for one service";

/// The phase in which one service may not send wake-ups, and nothing else is wrong.
pub(super) const ONE_MUTE: &str = "no wake-ups from one service";

/// How long a fault has effects after it has healed. A key that nobody will release lives for its time to live: of a
/// holder that was killed, or of a request that was held back. Then each reservation for a killed process has to
/// expire: there are a few. And services that have just started must connect to the servers.
pub(super) const SETTLE: Duration = MAX_TTL.saturating_add(RESERVATION_TTL.saturating_mul(6));

/// A span of time.
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

    /// The part that lies in another one, if there is one.
    pub(super) fn within(self, other: Self) -> Option<Self> {
        self.after(other.from)?.before(other.to)
    }

    /// The parts that lie in none of some others.
    pub(super) fn without(self, others: impl Iterator<Item = Self>) -> Vec<Self> {
        let cut = |part: &Self, other: Self| [part.before(other.from), part.after(other.to)].into_iter().flatten();
        others.fold(vec![self], |parts, other| parts.iter().flat_map(|part| cut(part, other)).collect())
    }

    pub(super) fn contains(self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// The spans of such phases, from the history of the nemesis.
pub(super) fn phases(nemesis: &[Record], phase: &str) -> Vec<Window> {
    let (mut windows, mut began) = (Vec::new(), None);
    for Record { at, event } in nemesis {
        if let Event::Phase { name } = event {
            windows.extend(began.take().map(|from| Window { from, to: *at }));
            began = (name == phase).then_some(*at);
        }
    }
    windows
}

/// When the process of a history stood still, if it recorded that.
pub(super) fn stalls(history: &[Record]) -> Vec<(Option<Process>, Window)> {
    let process = history.first().and_then(|first| match first.event {
        Event::Started { service, generation } => Some((service, generation)),
        _ => None,
    });
    let stall = |record: &Record| match record.event {
        Event::Stalled { from } => Some((process, Window { from, to: record.at })),
        _ => None,
    };
    history.iter().filter_map(stall).collect()
}

/// For how long of a window at least one of these processes stood still.
pub(super) fn stalled<'a>(stalls: impl Iterator<Item = &'a Window>, window: Window) -> Duration {
    let mut stalls: Vec<Window> = stalls.filter_map(|stall| stall.within(window)).collect();
    stalls.sort_unstable_by_key(|stall| stall.from);
    let (mut total, mut until) = (Duration::ZERO, Moment(0));
    for stall in stalls {
        total += stall.to.since(stall.from.max(until));
        until = until.max(stall.to);
    }
    total
}

/// The spans that consist of such phases only, after the effects of earlier faults are over: so long after they healed. From
/// the history of the nemesis.
pub(super) fn windows(nemesis: &[Record], phases: &[&str], settle: Duration) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut began = None;
    // Everything has just been started.
    let mut settled = nemesis.first().map_or(Moment(0), |first| first.at.plus(settle));
    let of_wakeups = |name: &str| Kind::OF_WAKEUPS.iter().chain([&Kind::DenyPublish]).any(|kind| kind.name() == name);
    for Record { at, event } in nemesis {
        match event {
            Event::Phase { name } if phases.contains(&name.as_str()) => _ = began.get_or_insert(*at),
            Event::Phase { .. } => {
                let window = began.take().map(|began| Window { from: settled.max(began), to: *at });
                windows.extend(window.filter(|window| window.from < window.to));
            }
            Event::Fault { kind, .. } | Event::Healed { kind, .. } if !of_wakeups(kind) => settled = at.plus(settle),
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
    fn a_window_begins_when_faults_have_settled() {
        let history = [
            phase(0, QUIET),
            phase(4_000_000, "faults"),
            healed(4_500_000, Kind::StopService),
            phase(5_000_000, QUIET),
            phase(9_000_000, NO_WAKEUPS),
            healed(9_500_000, Kind::LoseWakeups),
            phase(10_000_000, "end"),
        ];
        let settled = |moment: u64, to: u64| Window { from: Moment(moment).plus(SETTLE), to: Moment(to) };
        assert_eq!(windows(&history, &[QUIET], SETTLE), [settled(0, 4_000_000), settled(4_500_000, 9_000_000)]);
        assert_eq!(
            windows(&history, &[QUIET, NO_WAKEUPS], SETTLE),
            [settled(0, 4_000_000), settled(4_500_000, 10_000_000)]
        );
        assert_eq!(
            windows(&history, &[NO_WAKEUPS], SETTLE),
            [Window { from: Moment(9_000_000), to: Moment(10_000_000) }]
        );
    }

    #[test]
    fn a_phase_that_is_too_short_is_no_window() {
        let history = [healed(9, Kind::CutLink), phase(10, QUIET), phase(1_000, "faults")];
        assert_eq!(windows(&history, &[QUIET], SETTLE), []);
    }
}
