//! A part of the ledger: the tokens. Must be right: no fence is ever lowered, or raised from another value than the one that was seen.

use std::collections::HashMap;

use zookeeper_client::CreateMode;

use super::transaction::Part;

/// The fences as this session saw them last: their value, and the version of their znode; `None` for one that was not there. At most
/// as many as there are fences.
///
/// The version could count the tokens, in one round trip always. But it has 32 bits, which a busy lock uses up in a month; and hints,
/// floors and evictions set a fence to any number.
///
/// What is known here may be old. A transaction that raises a fence names the version, so it fails if the fence was raised meanwhile,
/// and is sent again with the present value.
#[derive(Default)]
pub(super) struct Fences(HashMap<u16, Fence>);

/// A fence, as it was seen.
#[derive(Clone, Copy, Default)]
pub(super) struct Fence {
    pub(super) value: u64,
    pub(super) version: Option<i32>,
}

impl Fence {
    /// The last parts of a transaction that gives the fence another value, if it is still as it was seen.
    ///
    /// After 2³² changes, a version comes round, through -1. As the version that is expected, this stands for any: so the fence is set
    /// once more in the same transaction, and nobody ever sees it with this version.
    pub(super) fn raise<'a>(self, path: &'a str, value: &'a str) -> Vec<Part<'a>> {
        let value = value.as_bytes();
        match self.version {
            Some(-2) => vec![Part::Set(path, value, Some(-2)), Part::Set(path, value, None)],
            Some(version) => vec![Part::Set(path, value, Some(version))],
            None => vec![Part::Create(path, value, CreateMode::Persistent)],
        }
    }
}

impl Fences {
    pub(super) fn get(&self, fence: u16) -> Option<Fence> {
        self.0.get(&fence).copied()
    }

    pub(super) fn set(&mut self, fence: u16, seen: Fence) {
        self.0.insert(fence, seen);
    }

    pub(super) fn forget(&mut self, fence: u16) {
        self.0.remove(&fence);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_never_left_with_the_version_that_stands_for_any() {
        for before in [0, 1, i32::MAX, i32::MIN, -3, -2] {
            let mut version = before;
            for part in (Fence { value: 1, version: Some(before) }).raise("/fences/1", "2") {
                let Part::Set("/fences/1", b"2", expected) = part else { panic!("it exists") };
                assert!(expected.is_none_or(|expected| expected == version && expected != -1));
                version = version.wrapping_add(1);
            }
            assert!(version != -1 && version != before, "{before}");
        }
        let created = Fence::default().raise("/fences/1", "1");
        assert!(matches!(created[..], [Part::Create("/fences/1", b"1", CreateMode::Persistent)]));
    }
}
