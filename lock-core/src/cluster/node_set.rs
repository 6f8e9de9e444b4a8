/// The largest number of nodes that a manager can have.
pub(crate) const MAX_NODES: usize = 63;

/// A set of nodes, by their numbers: a node's number is its index in the list that the manager was built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// The first `nodes` nodes.
    pub(crate) fn all(nodes: usize) -> Self {
        Self((1 << nodes) - 1)
    }

    pub(crate) fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    pub(crate) fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The numbers of the nodes, in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_NODES).filter(move |node| self.contains(*node))
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_was_inserted() {
        let mut set = NodeSet::default();
        assert!(set.is_empty());
        for node in [0, 5, MAX_NODES - 1] {
            set.insert(node);
            assert!(set.contains(node));
        }
        set.remove(5);
        assert!(set.contains(0) && !set.contains(5) && set.contains(MAX_NODES - 1));
        let three = NodeSet::all(3);
        assert_eq!(set.union(three).len(), 4);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, MAX_NODES - 1]);
        let rest = three.without(set);
        assert!(!rest.contains(0) && rest.contains(1) && rest.contains(2) && !rest.contains(3));
    }
}
