use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::limits::MAX_PERMITS;

/// How many resources are remembered at most. A power of two.
const PLACES: usize = 4096;

const _: () = assert!(MAX_PERMITS < u8::MAX as u32);

/// Which slot of a resource to try first: the one that this process released last, which most likely is still free.
///
/// A table of fixed size, by hash. Two resources with the same place only try slots that are less likely to be free.
pub(super) struct LastSlots {
    hasher: RandomState,
    /// The slot plus one; zero if nothing is known.
    places: Box<[AtomicU8]>,
}

impl Default for LastSlots {
    fn default() -> Self {
        Self { hasher: RandomState::new(), places: (0..PLACES).map(|_| AtomicU8::new(0)).collect() }
    }
}

impl LastSlots {
    /// The slot to try first, below `permits`. `random` chooses it if nothing is known. The next caller is to try another one.
    pub(super) fn take(&self, queue: &str, permits: u32, random: impl FnOnce() -> u64) -> u32 {
        let place = self.place(queue);
        let known = u32::from(place.load(Ordering::Relaxed)).checked_sub(1).filter(|slot| *slot < permits);
        let slot = known.unwrap_or_else(|| u32::try_from(random() % u64::from(permits.max(1))).unwrap_or_default());
        place.store(stored((slot + 1) % permits.max(1)), Ordering::Relaxed);
        slot
    }

    /// This process no longer holds a slot.
    pub(super) fn put_back(&self, queue: &str, slot: u32) {
        self.place(queue).store(stored(slot), Ordering::Relaxed);
    }

    fn place(&self, queue: &str) -> &AtomicU8 {
        let index = usize::try_from(self.hasher.hash_one(queue) % PLACES as u64).unwrap_or_default();
        &self.places[index]
    }
}

fn stored(slot: u32) -> u8 {
    u8::try_from(slot + 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_that_was_released_last_is_tried_first_and_by_one_caller() {
        let slots = LastSlots::default();
        assert_eq!(slots.take("export{}", 5, || 7), 2);
        assert_eq!([(); 4].map(|()| slots.take("export{}", 5, || 7)), [3, 4, 0, 1]);
        slots.put_back("export{}", 3);
        assert_eq!(slots.take("export{}", 5, || 7), 3);
    }

    #[test]
    fn a_slot_beyond_the_number_of_permits_is_not_tried() {
        let slots = LastSlots::default();
        slots.put_back("export{}", 99);
        assert_eq!(slots.take("export{}", 3, || 4), 1);
        assert_eq!(slots.take("export{}", 1, || 4), 0);
        slots.put_back("export{}", 99);
        assert_eq!(slots.take("export{}", 100, || 4), 99);
    }
}
