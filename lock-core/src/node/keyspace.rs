use std::sync::Arc;

use crate::random::WaiterId;
use crate::resource::Resource;

/// The names of the keys that one set of masters uses, all under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    prefix: String,
    meta: String,
    quarantine: String,
}

impl Keyspace {
    /// The key space under a prefix. A prefix with braces can not be used with a manager.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            meta: format!("{prefix}{{node}}"),
            quarantine: format!("{prefix}{{node}}:quarantine"),
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
    fence: String,
    queue: String,
    turn: String,
}

impl LockKeys {
    /// The keys of the lock on `resource`, whose name is not checked here.
    #[must_use]
    pub fn new(keyspace: &Arc<Keyspace>, resource: &str) -> Self {
        let lock = format!("{}{resource}", keyspace.prefix);
        let beside = |what: &str| ["{", &lock, "}:", what].concat();
        let (fence, queue, turn) = (beside("fence"), beside("queue"), beside("turn"));
        Self(Arc::new(Names { keyspace: Arc::clone(keyspace), lock: lock.into(), fence, queue, turn }))
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

    /// The key that holds the highest fencing number.
    #[must_use]
    pub fn fence(&self) -> &str {
        &self.0.fence
    }

    /// The key that holds the queue, while someone waits.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// The key that says for whom the lock is kept, while it is.
    #[must_use]
    pub fn turn(&self) -> &str {
        &self.0.turn
    }
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
        assert_eq!(keys.fence(), "{shop:stock:42}:fence");
    }
}
