use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many resources are remembered at most. A power of two.
const SLOTS: usize = 4096;
/// The bits of a slot that hold the mean, in microseconds: up to twelve days, more than any hold. The others hold the tag.
const MEAN: u64 = (1 << 40) - 1;
/// The last hold has the weight one in four.
const WEIGHT: u64 = 4;

/// How long the locks of a manager were held lately: for each resource, a mean in which the last holds weigh most.
///
/// A table of fixed size, by hash: of two resources with the same slot, the one that was held last is remembered. A tag tells
/// them apart. Nothing but advice depends on the values, so threads that record at the same time may lose one.
pub(super) struct HoldTimes {
    hasher: RandomState,
    /// Tag and mean; zero if nothing was recorded.
    slots: Box<[AtomicU64]>,
}

impl Default for HoldTimes {
    fn default() -> Self {
        Self { hasher: RandomState::new(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl HoldTimes {
    /// Records that a lock on a resource was held for this long.
    pub(super) fn record(&self, resource: &str, held: Duration) {
        let (slot, tag) = self.slot(resource);
        let held = u64::try_from(held.as_micros()).unwrap_or(u64::MAX).clamp(1, MEAN);
        let mean = match known(slot, tag) {
            Some(mean) => (mean * (WEIGHT - 1) + held) / WEIGHT,
            None => held,
        };
        slot.store(tag | mean, Ordering::Relaxed);
    }

    /// How long holds of a resource took lately; `None` if that is not known.
    pub(super) fn typical(&self, resource: &str) -> Option<Duration> {
        let (slot, tag) = self.slot(resource);
        known(slot, tag).map(Duration::from_micros)
    }

    /// The slot of a resource, and its tag.
    fn slot(&self, resource: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(resource);
        // The low bits choose the slot, the high ones are the tag.
        let index = usize::try_from(hash % SLOTS as u64).unwrap_or_default();
        (&self.slots[index], hash & !MEAN)
    }
}

fn known(slot: &AtomicU64, tag: u64) -> Option<u64> {
    let value = slot.load(Ordering::Relaxed);
    (value != 0 && value & !MEAN == tag).then_some((value & MEAN).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holds_weigh_most() {
        let times = HoldTimes::default();
        assert_eq!(times.typical("r"), None);
        times.record("r", Duration::from_millis(400));
        assert_eq!(times.typical("r"), Some(Duration::from_millis(400)));
        times.record("r", Duration::from_millis(800));
        assert_eq!(times.typical("r"), Some(Duration::from_millis(500)));
        for _ in 0..20 {
            times.record("r", Duration::from_millis(100));
        }
        let typical = times.typical("r").unwrap();
        assert!(typical < Duration::from_millis(103), "{typical:?}");
    }

    #[test]
    fn the_shortest_and_the_longest_hold_are_remembered() {
        let times = HoldTimes::default();
        times.record("short", Duration::ZERO);
        assert_eq!(times.typical("short"), Some(Duration::from_micros(1)));
        times.record("long", crate::limits::MAX_HOLD);
        assert_eq!(times.typical("long"), Some(crate::limits::MAX_HOLD));
        times.record("long", crate::limits::MAX_HOLD);
        assert_eq!(times.typical("long"), Some(crate::limits::MAX_HOLD));
    }

    #[test]
    fn a_resource_is_not_mistaken_for_another_and_memory_is_bounded() {
        let times = HoldTimes::default();
        let names: Vec<_> = (0..3 * SLOTS).map(|number| format!("r:{number}")).collect();
        let held = |number: usize| Duration::from_micros(number as u64 + 1);
        for (number, name) in names.iter().enumerate() {
            times.record(name, held(number));
        }
        let known = |(number, name): (usize, &String)| times.typical(name).map(|typical| (typical, held(number)));
        let known: Vec<_> = names.iter().enumerate().filter_map(known).collect();
        assert!(known.len() <= SLOTS && known.len() > SLOTS / 2, "{}", known.len());
        // One in 16 million pairs in the same slot has the same tag as well.
        let mistaken = known.iter().filter(|(typical, held)| typical != held).count();
        assert!(mistaken <= 2, "{mistaken}");
    }
}
