use super::state::NODES;

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes(u8);

impl Nodes {
    /// Whether the node is in the set.
    #[must_use]
    pub fn contains(self, node: usize) -> bool {
        self.0 & 1 << node != 0
    }

    /// All nodes.
    #[must_use]
    pub fn all() -> Self {
        Self((1 << NODES) - 1)
    }

    /// Adds a node.
    pub fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Removes a node.
    pub fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    /// Whether the set contains more than half of all nodes.
    #[must_use]
    pub fn are_majority(self) -> bool {
        self.0.count_ones() as usize > NODES / 2
    }

    /// The same set with the nodes renamed: node `order[i]` becomes node `i`.
    #[must_use]
    pub fn renamed(self, order: [usize; NODES]) -> Self {
        let mut renamed = Self::default();
        (0..NODES).filter(|node| self.contains(order[*node])).for_each(|node| renamed.insert(node));
        renamed
    }
}
