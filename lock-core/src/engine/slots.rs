use crate::node::SlotOffer;
use crate::quorum::majority;

/// Which slots nodes let a caller take. A hint: an attempt decides.
///
/// A slot is chosen by one of three rules, by what is known. Before an attempt nothing is, and `LastSlots` (`waiting/last_slots.rs`) takes
/// the one that this process released last. A caller in the nodes' queue takes the [best](Self::best): the nodes propose different slots to
/// different waiters. One that does not wait is proposed none, and takes [any](Self::any_free).
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotOffers(Vec<(usize, SlotOffer)>);

/// A slot that is worth an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotChoice {
    pub(crate) slot: u32,
    /// Whether a majority of the nodes has it free.
    pub(crate) is_free: bool,
    /// Whether a majority of the nodes proposes it: other callers are told to take others.
    pub(crate) is_proposed: bool,
}

impl SlotOffers {
    /// Adds what a node offers.
    pub(crate) fn add(&mut self, node: usize, offer: SlotOffer) {
        self.0.push((node, offer));
    }

    /// What each of the nodes offers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, SlotOffer)> {
        self.0.iter().copied()
    }

    /// One of the slots that a majority of all nodes has free, by a random number: all callers that do not wait see the same ones free, and
    /// would meet at the first.
    pub(crate) fn any_free(&self, nodes: usize, random: impl FnOnce() -> u64) -> Option<u32> {
        let is_free = |slot: &u32| self.count(|offer| offer.free.contains(*slot)) >= majority(nodes);
        let slots: Vec<u32> = self.slots().filter(is_free).collect();
        let index = random().checked_rem(slots.len() as u64)?;
        slots.get(usize::try_from(index).unwrap_or_default()).copied()
    }

    /// The slot that is most likely to be granted: one that a majority has free, of these the one that most nodes propose, and then the
    /// first.
    pub(crate) fn best(&self, nodes: usize) -> Option<SlotChoice> {
        let score = |slot: u32| {
            let free = self.count(|offer| offer.free.contains(slot));
            (free >= majority(nodes), self.count(|offer| offer.proposed == slot), free)
        };
        let slot = self.slots().max_by_key(|slot| (score(*slot), std::cmp::Reverse(*slot)))?;
        let (is_free, proposals, _) = score(slot);
        Some(SlotChoice { slot, is_free, is_proposed: proposals >= majority(nodes) })
    }

    /// All slots that any node has free.
    fn slots(&self) -> impl Iterator<Item = u32> {
        let all = self.0.iter().map(|(_, offer)| offer.free);
        all.reduce(|all, free| all.iter().chain(free.iter()).collect()).unwrap_or_default().iter()
    }

    fn count(&self, condition: impl Fn(&SlotOffer) -> bool) -> usize {
        self.0.iter().filter(|(_, offer)| condition(offer)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(of_nodes: &[(u32, &[u32])]) -> SlotOffers {
        let mut offers = SlotOffers::default();
        for (node, (proposed, free)) in of_nodes.iter().enumerate() {
            offers.add(node, SlotOffer { proposed: *proposed, free: free.iter().copied().collect() });
        }
        offers
    }

    fn choice(slot: u32, is_free: bool, is_proposed: bool) -> Option<SlotChoice> {
        Some(SlotChoice { slot, is_free, is_proposed })
    }

    #[test]
    fn the_slot_that_a_majority_proposes_is_chosen() {
        assert_eq!(offers(&[(1, &[0, 1]), (1, &[0, 1]), (0, &[0])]).best(3), choice(1, true, true));
    }

    #[test]
    fn without_one_it_is_a_slot_that_a_majority_has_free() {
        assert_eq!(offers(&[(1, &[1, 2]), (2, &[2])]).best(3), choice(2, true, false));
        assert_eq!(offers(&[(1, &[0, 1]), (0, &[0, 1])]).best(3), choice(0, true, false), "the first");
    }

    #[test]
    fn a_caller_that_does_not_wait_takes_any_slot_that_a_majority_has_free() {
        let offers = offers(&[(1, &[1, 2, 3]), (2, &[2]), (1, &[1])]);
        assert_eq!([0, 1, 2].map(|number| offers.any_free(3, || number)), [Some(1), Some(2), Some(1)]);
        assert_eq!(SlotOffers::default().any_free(3, || 0), None);
    }

    #[test]
    fn a_slot_that_only_a_minority_has_free_is_better_than_none() {
        assert_eq!(offers(&[(3, &[3])]).best(3), choice(3, false, false));
        assert_eq!(SlotOffers::default().best(3), None);
        assert_eq!(offers(&[(3, &[3])]).best(1), choice(3, true, true));
    }
}
