use std::fmt;

use crate::limits::MAX_PERMITS;

const _: () = assert!(MAX_PERMITS <= u128::BITS);

/// A set of slots of a resource, by their numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Slots(u128);

impl Slots {
    /// Adds a slot. One that no resource can have is left out.
    pub fn insert(&mut self, slot: u32) {
        if slot < MAX_PERMITS {
            self.0 |= 1 << slot;
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: u32) {
        if slot < MAX_PERMITS {
            self.0 &= !(1 << slot);
        }
    }

    /// Whether a slot is among them.
    pub fn contains(self, slot: u32) -> bool {
        slot < MAX_PERMITS && self.0 & (1 << slot) != 0
    }

    /// Those with a smaller number.
    pub fn below(self, permits: u32) -> Self {
        if permits < MAX_PERMITS { Self(self.0 & ((1 << permits) - 1)) } else { self }
    }

    /// The slot with the smallest number.
    pub fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The slots, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..MAX_PERMITS).filter(move |slot| self.contains(*slot))
    }
}

impl FromIterator<u32> for Slots {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The slots that a caller may take on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotOffer {
    /// The one that is proposed: another one for each waiter, so that they do not all try the same.
    pub proposed: u32,
    /// All that are free there, of those that the caller may have.
    pub free: Slots,
}

impl SlotOffer {
    /// An offer of these slots, of which the first is proposed; `None` if there are none.
    pub fn of(free: Slots) -> Option<Self> {
        free.first().map(|proposed| Self { proposed, free })
    }

    /// Reads the proposed slot and those that are free, as stores write them: `2,0,2,3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (proposed, free) = text.split_once(',')?;
        let slot = |digits: &str| digits.parse().ok().filter(|slot| *slot < MAX_PERMITS);
        let offer = Self { proposed: slot(proposed)?, free: free.split(',').map(slot).collect::<Option<_>>()? };
        offer.free.contains(offer.proposed).then_some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_slots_that_were_inserted() {
        let slots: Slots = [0, 7, 99, 100, u32::MAX].into_iter().collect();
        assert!(slots.iter().eq([0, 7, 99]));
        assert_eq!((slots.count(), slots.first()), (3, Some(0)));
        assert!(slots.below(99).iter().eq([0, 7]) && slots.below(100) == slots && slots.below(0) == Slots::default());
        assert!(!slots.contains(100) && !slots.contains(128));
        let mut rest = slots;
        rest.remove(7);
        rest.remove(200);
        assert_eq!(format!("{rest:?}"), "{0, 99}");
    }

    #[test]
    fn an_offer_proposes_one_of_the_slots_that_are_free() {
        let free: Slots = [0, 2, 3].into_iter().collect();
        assert_eq!(SlotOffer::parse("2,0,2,3"), Some(SlotOffer { proposed: 2, free }));
        assert_eq!(SlotOffer::parse("99,99").map(|offer| offer.proposed), Some(99));
        for odd in ["", "2", "2,", "2,3", "100,100", "2,2,x", "2,2,-1", "2,2,"] {
            assert_eq!(SlotOffer::parse(odd), None, "{odd:?}");
        }
    }
}
