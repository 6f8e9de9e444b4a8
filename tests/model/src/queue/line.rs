use std::fmt;

/// The most waiters in a line.
pub(super) const MAX_LINE: usize = 4;

/// A short list of small numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Line {
    len: u8,
    items: [u8; MAX_LINE],
}

impl Line {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + '_ {
        self.items[..self.len()].iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    pub(crate) fn get(&self, at: usize) -> Option<u8> {
        self.items[..self.len()].get(at).copied()
    }

    pub(crate) fn insert(&mut self, at: usize, item: u8) {
        let len = self.len();
        self.items.copy_within(at..len, at + 1);
        self.items[at] = item;
        self.len += 1;
    }

    pub(crate) fn push(&mut self, item: u8) {
        self.insert(self.len(), item);
    }

    pub(crate) fn remove(&mut self, at: usize) -> u8 {
        let removed = self.items[at];
        let len = self.len();
        self.items.copy_within(at + 1..len, at);
        self.len -= 1;
        self.items[len - 1] = 0;
        removed
    }

    pub(crate) fn map(&self, to: impl FnMut(u8) -> u8) -> Self {
        self.iter().map(to).collect()
    }
}

impl FromIterator<u8> for Line {
    fn from_iter<I: IntoIterator<Item = u8>>(items: I) -> Self {
        let mut line = Self::default();
        items.into_iter().for_each(|item| line.push(item));
        line
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
