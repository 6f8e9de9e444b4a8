//! Who was between reading and writing the stock, and when: what the swim lanes show.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

/// A rush has 300 buyers, most of whom come once.
const KEPT: usize = 400;
/// What lies further back is not shown.
const SHOWN: Duration = Duration::from_secs(10);
/// After so long without anybody, a new picture begins.
const IDLE: Duration = Duration::from_secs(2);

/// The bars of one picture. It stays when the last buyer has left, until others come.
///
/// All times are those since the service started.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    from: Duration,
    bars: BTreeMap<u64, Bar>,
    refused: Vec<(usize, Duration)>,
}

#[derive(Debug)]
struct Bar {
    instance: usize,
    from: Duration,
    to: Option<Duration>,
}

/// The picture, in milliseconds since the service started.
#[derive(Debug, Serialize)]
pub(crate) struct LanesView {
    from_ms: f64,
    to_ms: f64,
    /// Instance, begin, and end, which is null while somebody is inside.
    bars: Vec<(usize, f64, Option<f64>)>,
    /// Instance and time of each write that the fence refused.
    refused: Vec<(usize, f64)>,
}

impl Lanes {
    /// Begins a new picture. A request that is inside is in it, too.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.from = now;
        self.bars.retain(|_, bar| bar.to.is_none());
        self.refused.clear();
    }

    pub(crate) fn entered(&mut self, id: u64, instance: usize, now: Duration) {
        if self.last_seen(now) + IDLE < now {
            self.begin(now);
        }
        self.bars.insert(id, Bar { instance, from: now, to: None });
        if self.bars.len() > KEPT {
            self.bars.pop_first();
        }
    }

    pub(crate) fn left(&mut self, id: u64, now: Duration) {
        if let Some(bar) = self.bars.get_mut(&id) {
            bar.to.get_or_insert(now);
        }
    }

    /// Ends all bars of an instance that died.
    pub(crate) fn died(&mut self, instance: usize, now: Duration) {
        for bar in self.bars.values_mut().filter(|bar| bar.instance == instance) {
            bar.to.get_or_insert(now);
        }
    }

    pub(crate) fn refused(&mut self, instance: usize, now: Duration) {
        self.refused.push((instance, now));
    }

    pub(crate) fn view(&self, now: Duration) -> LanesView {
        let to = self.last_seen(now);
        let from = self.from.max(to.saturating_sub(SHOWN));
        let is_shown = |bar: &&Bar| bar.to.is_none_or(|end| end > from);
        let bar = |bar: &Bar| (bar.instance, millis(bar.from), bar.to.map(millis));
        LanesView {
            from_ms: millis(from),
            to_ms: millis(to),
            bars: self.bars.values().filter(is_shown).map(bar).collect(),
            refused: self.refused.iter().filter(|(_, at)| *at > from).map(|(who, at)| (*who, millis(*at))).collect(),
        }
    }

    /// When somebody was inside for the last time.
    fn last_seen(&self, now: Duration) -> Duration {
        self.bars.values().map(|bar| bar.to.unwrap_or(now)).max().unwrap_or(self.from)
    }
}

/// To the microsecond, so that hundreds of bars stay small.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_picture_stays_until_others_come() {
        let mut lanes = Lanes::default();
        lanes.begin(at(100));
        lanes.entered(0, 1, at(110));
        lanes.left(0, at(130));
        lanes.refused(1, at(130));
        let view = lanes.view(at(60_000));
        assert_eq!((view.from_ms, view.to_ms), (100.0, 130.0));
        assert_eq!((view.bars, view.refused), (vec![(1, 110.0, Some(130.0))], vec![(1, 130.0)]));

        lanes.entered(1, 2, at(60_000));
        let view = lanes.view(at(60_050));
        assert_eq!((view.from_ms, view.to_ms), (60_000.0, 60_050.0));
        assert_eq!((view.bars, view.refused), (vec![(2, 60_000.0, None)], vec![]));
    }

    #[test]
    fn whoever_is_still_inside_is_in_the_next_picture() {
        let mut lanes = Lanes::default();
        lanes.entered(0, 1, at(10));
        lanes.begin(at(500));
        assert_eq!(lanes.view(at(600)).bars, [(1, 10.0, None)]);
    }

    #[test]
    fn whoever_died_is_not_inside_any_more() {
        let mut lanes = Lanes::default();
        lanes.entered(0, 1, at(10));
        lanes.entered(1, 2, at(20));
        lanes.died(1, at(30));
        lanes.left(0, at(40));
        assert_eq!(lanes.view(at(50)).bars, [(1, 10.0, Some(30.0)), (2, 20.0, None)]);
    }

    #[test]
    fn old_bars_are_forgotten() {
        let mut lanes = Lanes::default();
        for id in 0..2_000 {
            lanes.entered(id, 1, at(id * 10));
            lanes.left(id, at(id * 10 + 5));
        }
        assert_eq!(lanes.bars.len(), KEPT);
        assert_eq!(lanes.view(at(20_000)).from_ms, 9_995.0);
    }
}
