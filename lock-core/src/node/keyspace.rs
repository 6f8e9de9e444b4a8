use std::sync::Arc;

use crate::random::WaiterId;
use crate::resource::Resource;

/// The names of the keys that one set of masters uses, all under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    prefix: String,
    meta: String,
    quarantine: String,
    queued: String,
}

impl Keyspace {
    /// How many fences a node has. Locks share them, so that they need no room that grows, and none has to be forgotten: a node
    /// that has granted millions of locks keeps sixteen thousand numbers. Two locks that have the same fence only skip each
    /// other's numbers.
    pub const FENCES: u16 = 1 << 14;

    /// The key space under a prefix. A prefix with braces can not be used with a manager.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            meta: format!("{prefix}{{node}}"),
            quarantine: format!("{prefix}{{node}}:quarantine"),
            queued: format!("{prefix}{{node}}:queued"),
        }
    }

    /// The key of the node's own record.
    #[must_use]
    pub fn meta(&self) -> &str {
        &self.meta
    }

    /// The key that is there while the node is in quarantine.
    #[must_use]
    pub fn quarantine(&self) -> &str {
        &self.quarantine
    }

    /// The key of the list of locks that may be waited for, which is there while there are any.
    #[must_use]
    pub fn queued(&self) -> &str {
        &self.queued
    }

    /// The key of the list in which the node leaves its calls for a process.
    #[must_use]
    pub fn calls(&self, waiter: WaiterId) -> String {
        format!("{}:calls:{waiter}", self.meta)
    }

    pub(crate) fn keys(self: &Arc<Self>, resource: &Resource) -> LockKeys {
        LockKeys::new(self, resource.as_str())
    }
}

/// The keys of one lock. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeys(Arc<Names>);

#[derive(Debug, PartialEq, Eq)]
struct Names {
    keyspace: Arc<Keyspace>,
    lock: Arc<str>,
    fence: u16,
}

impl LockKeys {
    /// The keys of the lock on `resource`, whose name is not checked here.
    #[must_use]
    pub fn new(keyspace: &Arc<Keyspace>, resource: &str) -> Self {
        let lock = [&keyspace.prefix, resource].concat();
        let fence = fence_of(&lock);
        Self(Arc::new(Names { keyspace: Arc::clone(keyspace), lock: lock.into(), fence }))
    }

    /// The key space that they are in.
    #[must_use]
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.0.keyspace
    }

    /// The key that holds the owner id: what every other Redlock writes.
    #[must_use]
    pub fn lock(&self) -> &str {
        &self.0.lock
    }

    pub(crate) fn lock_shared(&self) -> Arc<str> {
        Arc::clone(&self.0.lock)
    }

    /// Which of the node's [fences](Keyspace::FENCES) counts the numbers of this lock: a field of its record.
    #[must_use]
    pub fn fence(&self) -> u16 {
        self.0.fence
    }
}

/// The same in every process and every version, or they would count apart: FNV-1a of 64 bits (Fowler, Noll, Vo;
/// draft-eastlake-fnv).
fn fence_of(lock: &str) -> u16 {
    const { assert!(Keyspace::FENCES.is_power_of_two()) };
    let hash = lock
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let [low, next, ..] = hash.to_le_bytes();
    u16::from_le_bytes([low, next]) % Keyspace::FENCES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_resource_can_be_a_record_of_the_node() {
        let keyspace = Arc::new(Keyspace::new("shop:"));
        assert_eq!(keyspace.meta(), "shop:{node}");
        assert_eq!(keyspace.quarantine(), "shop:{node}:quarantine");
        let keys = LockKeys::new(&keyspace, "stock:42");
        assert_eq!(keys.lock(), "shop:stock:42");
    }

    #[test]
    fn a_lock_has_the_same_fence_for_ever() {
        let fence = |resource| LockKeys::new(&Arc::new(Keyspace::new("lock:")), resource).fence();
        assert_eq!([fence(""), fence("a"), fence("stock:42")], [13064, 7019, 10918]);
    }

    #[test]
    fn locks_are_spread_over_the_fences() {
        let mut counts = vec![0; usize::from(Keyspace::FENCES)];
        for stock in 0..10 * u32::from(Keyspace::FENCES) {
            counts[usize::from(fence_of(&format!("lock:stock:{stock}")))] += 1;
        }
        let (most, none) = (counts.iter().max().unwrap(), counts.iter().filter(|count| **count == 0).count());
        assert!(*most < 40 && none < 20, "{most} locks have one fence, {none} fences have no lock");
    }
}
