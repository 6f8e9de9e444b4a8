use std::collections::HashMap;

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
