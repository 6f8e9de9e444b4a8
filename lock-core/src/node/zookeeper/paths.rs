use std::fmt::Write as _;
use std::num::NonZeroU64;

use crate::node::{Keyspace, LockKeys};
use crate::random::{Epoch, OwnerId, WaiterId};

/// Where the znodes of a set are, below the path of the address:
///
/// | znode | kind | what it is |
/// |---|---|---|
/// | `PREFIX/memory-ID` | persistent | names this memory: the run id. Created once, together with `clock` |
/// | `PREFIX/clock` | persistent | written to learn the leader's time |
/// | `PREFIX/record` | persistent | the record of the node, as lines of `name=value` |
/// | `PREFIX/epoch-EPOCH` | persistent | is there while the record has this epoch; its value is the floor of all fences |
/// | `PREFIX/fences/N` | persistent | the highest token of the fence: at most 16,385 of them |
/// | `PREFIX/locks/LOCK` | ephemeral | the lock: its value is the owner; for a moment after an eviction, nobody's owner id |
/// | `PREFIX/owners/OWNER.LOCK` | ephemeral, version 0 | is there while the lock is this owner's |
/// | `PREFIX/owners/OWNER.LOCK` | persistent, version 1 | a tombstone: the owner was evicted |
/// | `PREFIX/evicted/OWNER.LOCK` | persistent | until when the owner is barred |
/// | `PREFIX/queues/QUEUE` | container | is there while somebody waits |
/// | `PREFIX/queues/QUEUE/SINCE-WAITER` | ephemeral | a manager that waits |
///
/// What is below `queues` is the waiting room's, and all else the ledger's.
///
/// Where `clock` or one of the directories is missing, the memory counts as gone: another one is created together with what is missing.
pub(super) struct Paths {
    set: String,
}

/// The directories, below the znode of the set.
pub(super) const DIRECTORIES: [&str; 5] = ["fences", "locks", "owners", "evicted", "queues"];

impl Paths {
    pub(super) fn new(root: &str, keyspace: &Keyspace) -> Self {
        let prefix = keyspace.record().strip_suffix("{node}").unwrap_or_default();
        Self { set: format!("{root}/{}", encode(prefix)) }
    }

    /// What all of them have in common.
    pub(super) fn set(&self) -> &str {
        &self.set
    }

    /// The znode of this name directly below that of the set.
    pub(super) fn in_set(&self, name: &str) -> String {
        format!("{}/{name}", self.set)
    }

    pub(super) fn memory(&self, id: &str) -> String {
        format!("{}/memory-{id}", self.set)
    }

    pub(super) fn epoch(&self, epoch: Epoch) -> String {
        format!("{}/epoch-{epoch}", self.set)
    }

    pub(super) fn fence(&self, fence: u16) -> String {
        format!("{}/fences/{fence}", self.set)
    }

    pub(super) fn lock(&self, keys: &LockKeys) -> String {
        format!("{}/locks/{}", self.set, name_of(keys))
    }

    pub(super) fn evicted(&self, entry: &str) -> String {
        format!("{}/evicted/{entry}", self.set)
    }

    pub(super) fn owner(&self, keys: &LockKeys, owner: OwnerId) -> String {
        self.tombstone(&entry(keys, owner))
    }

    /// The znode of an owner, which is a tombstone if there is an entry of the evicted with this name.
    pub(super) fn tombstone(&self, entry: &str) -> String {
        format!("{}/owners/{entry}", self.set)
    }

    pub(super) fn queue(&self, keys: &LockKeys) -> String {
        format!("{}/queues/{}", self.set, encode(keys.keyspace().resource_of(keys.queue())))
    }
}

/// The name of a waiter in its queue. The queue is in the order of the names.
pub(super) fn waiter(since: NonZeroU64, waiter: WaiterId) -> String {
    format!("{since:020}-{waiter}")
}

/// The name that the znodes of an owner of a lock have in their directories.
pub(super) fn entry(keys: &LockKeys, owner: OwnerId) -> String {
    format!("{owner}.{}", name_of(keys))
}

/// Of which owner an entry of the evicted is, if it is of this lock.
pub(super) fn evicted_from(entry: &str, keys: &LockKeys) -> Option<OwnerId> {
    let (owner, lock) = entry.split_once('.')?;
    OwnerId::parse(owner.as_bytes()).filter(|_| lock == name_of(keys))
}

/// The id of the memory, if this is the name of a znode that has it.
pub(super) fn memory_id(name: &str) -> Option<&str> {
    name.strip_prefix("memory-")
}

/// Whether the znode of this name directly below that of the set is there once for each memory.
pub(super) fn is_of_a_memory(name: &str) -> bool {
    memory_id(name).is_some() || name.starts_with("epoch-")
}

/// The name of a lock, without the prefix that all locks of the set have in common.
fn name_of(keys: &LockKeys) -> String {
    encode(keys.keyspace().resource_of(keys.lock_key()))
}

/// A text as the name of a znode. Printable ASCII stays as it is, but for what has a meaning here or in a path.
fn encode(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' | b'.' | b'%' => _ = write!(name, "%{byte:02X}"),
            byte if byte.is_ascii_graphic() => name.push(char::from(byte)),
            byte => _ = write!(name, "%{byte:02X}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_name_of_a_lock_is_the_name_of_a_znode_of_its_own() {
        let keyspace = Arc::new(Keyspace::new("shop:"));
        let paths = Paths::new("/locks", &keyspace);
        let lock = |name: &str| paths.lock(&LockKeys::new(&keyspace, name));
        assert_eq!(lock("stock:42"), "/locks/shop:/locks/stock:42");
        assert_eq!(lock("a/b.c%\u{e9} \u{1}"), "/locks/shop:/locks/a%2Fb%2Ec%25%C3%A9%20%01");
        assert_eq!((lock("."), lock("")), ("/locks/shop:/locks/%2E".into(), "/locks/shop:/locks/%".into()));
        assert_eq!(Paths::new("", &Keyspace::new("")).set(), "/%");
    }

    #[test]
    fn an_entry_of_the_evicted_names_owner_and_lock() {
        let keyspace = Arc::new(Keyspace::new("shop:"));
        let (keys, other) = (LockKeys::new(&keyspace, "a.b"), LockKeys::new(&keyspace, "b"));
        let owner = OwnerId::from_bits(7);
        let entry = entry(&keys, owner);
        assert_eq!((evicted_from(&entry, &keys), evicted_from(&entry, &other)), (Some(owner), None));
    }
}
