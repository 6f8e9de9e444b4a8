//! Whether locks could be acquired all the time: the longest time in which no probe of any service got one, although
//! a service was running that could have.

use std::time::Duration;

use super::super::NODE_TIMEOUT;
use super::super::history::{Event, Record};
use super::super::windows::Window;
use lock_history::Moment;

/// The longest that the whole fleet may go without an acquisition while a majority of the masters votes.
pub(super) const MAX_GAP: Duration = NODE_TIMEOUT.saturating_add(Duration::from_millis(100));

/// A time without acquisitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) window: Window,
    /// How much of it at least one service was running, and the machine, too.
    pub(super) length: Duration,
}

/// The times without acquisitions in a window, the longest first.
pub(super) fn gaps(nemesis: &[Record], services: &[Vec<Record>], window: Window) -> Vec<Gap> {
    let mut acquired: Vec<Moment> =
        services.iter().flatten().filter(|record| record.event == Event::Probed).map(|record| record.at).collect();
    acquired.extend([window.from, window.to]);
    acquired.retain(|at| window.from <= *at && *at <= window.to);
    acquired.sort_unstable();
    let able = able(nemesis, services);
    let gap = |pair: &[Moment]| {
        let window = Window { from: pair[0], to: pair[1] };
        Gap {
            window,
            length: able.iter().filter_map(|able| able.after(window.from)?.before(window.to)).map(Window::length).sum(),
        }
    };
    let mut gaps: Vec<Gap> = acquired.windows(2).map(gap).collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.length));
    gaps
}

/// The spans in which at least one service could have acquired a lock, in order.
fn able(nemesis: &[Record], services: &[Vec<Record>]) -> Vec<Window> {
    // +1 where a service begins to run, -1 where it stops; -1000 where the machine stands still.
    let mut changes: Vec<(Moment, i64)> = Vec::new();
    let mut add = |from: Moment, to: Moment, count: i64| changes.extend([(from, count), (to, -count)]);
    for history in services {
        // It has connected by its first acquisition.
        let first = history.iter().find(|record| record.event == Event::Probed);
        let last = history.iter().find(|record| record.event == Event::Closing).or(history.last());
        let (Some(first), Some(last)) = (first, last) else { continue };
        add(first.at, last.at, 1);
        stalls(history, first.at, last.at).for_each(|stall| add(stall.from, stall.to, -1));
    }
    stalls(nemesis, Moment(0), Moment::MAX).for_each(|stall| add(stall.from, stall.to, -1_000));
    changes.sort_unstable();
    let (mut able, mut running, mut from) = (Vec::new(), 0, Moment(0));
    for (at, change) in changes {
        if running > 0 && from < at {
            able.push(Window { from, to: at });
        }
        (running, from) = (running + change, at);
    }
    able
}

/// When a process stood still, within these moments.
fn stalls(history: &[Record], first: Moment, last: Moment) -> impl Iterator<Item = Window> {
    let stall = move |record: &Record| match record.event {
        Event::Stalled { from } => Window { from, to: record.at }.after(first)?.before(last),
        _ => None,
    };
    history.iter().filter_map(stall)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Window = Window { from: Moment(0), to: Moment(1_000) };

    fn history(events: &[(u64, Event)]) -> Vec<Record> {
        events.iter().map(|(at, event)| Record { at: Moment(*at), event: event.clone() }).collect()
    }

    fn probed(at: &[u64]) -> Vec<Record> {
        history(&at.iter().map(|at| (*at, Event::Probed)).collect::<Vec<_>>())
    }

    fn longest(nemesis: &[Record], services: &[Vec<Record>]) -> u128 {
        gaps(nemesis, services, RUN)[0].length.as_micros()
    }

    #[test]
    fn a_gap_lasts_until_any_service_acquires() {
        assert_eq!(longest(&[], &[probed(&[10, 100, 400, 1_000])]), 600);
        assert_eq!(longest(&[], &[probed(&[10, 100, 400, 1_000]), probed(&[600, 700])]), 300);
        assert_eq!(longest(&[], &[probed(&[10, 100, 400])]), 300, "nobody ran after that");
    }

    #[test]
    fn a_pause_counts_only_while_another_service_runs() {
        let stalled = |from, to| (to, Event::Stalled { from: Moment(from) });
        let mut paused = probed(&[60, 100]);
        paused.extend(history(&[stalled(110, 900), (950, Event::Probed), (1_000, Event::Probed)]));
        assert_eq!(longest(&[], std::slice::from_ref(&paused)), 10 + 50);
        assert_eq!(longest(&[], &[paused.clone(), probed(&[10, 990])]), 850);
        let machine = history(&[stalled(100, 900)]);
        assert_eq!(longest(&machine, &[paused, probed(&[10, 990])]), 50);
    }
}
