use std::borrow::Borrow;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::cluster_slot::{prefix_of_shard, slot_of};
use crate::random::{OwnerId, WaiterId};
use crate::resource::{Resource, hash, slot_name, split_slot};

/// The names of the keys that one set of masters uses, all under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    prefix: String,
    record: String,
    slot: Option<u16>,
}

impl Keyspace {
    /// How many fences a node has.
    ///
    /// Locks share them, by a hash of the lock key. So a node that has granted millions of locks keeps 16,384 counters, and
    /// never has to decide which of them it may forget. Two locks that share a fence only skip each other's tokens.
    pub const FENCES: u16 = 1 << 14;

    /// The fence of test votes. No lock has it. With a test vote, a manager finds out whether a node would grant and renew locks: it
    /// acquires, extends and releases a lock that nobody else can ask for.
    pub const TEST_FENCE: u16 = Self::FENCES;

    /// The keyspace under a prefix. A manager refuses a prefix that contains braces.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), record: format!("{prefix}{{node}}"), slot: None }
    }

    /// The keyspace of one of several shards. That of the first is the one that there is without shards: so a client with another
    /// number of them finds its record.
    ///
    /// No resource has the name `{}`, so what follows the prefix of another shard is no key of the first one.
    #[must_use]
    pub fn of_shard(prefix: &str, shard: u32) -> Self {
        if shard == 0 { Self::new(prefix) } else { Self::new(&format!("{prefix}{{}}{shard}:")) }
    }

    /// The keyspace of a shard in a Redis Cluster: all of its keys are in one slot, by the hash tag at the beginning of its prefix.
    #[must_use]
    pub fn in_cluster(prefix: &str, shard: u32) -> Self {
        let prefix = prefix_of_shard(prefix, shard);
        Self { slot: Some(slot_of(&prefix)), ..Self::new(&prefix) }
    }

    /// The slot of a Redis Cluster that all of its keys are in, if it is for one.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.slot
    }

    /// The key of the node's own record.
    pub fn record(&self) -> &str {
        &self.record
    }

    /// The channel on which the node wakes a waiter.
    pub fn wakeup_channel(&self, waiter: WaiterId) -> String {
        format!("{}:wakeups:{waiter}", self.record)
    }

    /// The keys of a lock for a test vote, which no user can ask for: no resource has a brace, and no two owners are equal. No
    /// lock shares their fence, so none skips a token.
    ///
    /// Nothing stands between the braces, so that a Redis Cluster takes the whole key for its slot, as it does of any lock key.
    pub(crate) fn test_keys(self: &Arc<Self>, owner: OwnerId) -> LockKeys {
        let lock_key = format!("{}{{}}:test:{owner}", self.prefix);
        LockKeys::with(self, lock_key, Self::TEST_FENCE, None)
    }

    /// The keys of the lock with this lock key.
    pub(crate) fn keys_of(self: &Arc<Self>, lock_key: &str) -> LockKeys {
        self.keys_named(self.resource_of(lock_key))
    }

    /// The resource that has this lock key; or its slot.
    pub(crate) fn resource_of<'a>(&self, lock_key: &'a str) -> &'a str {
        lock_key.strip_prefix(&self.prefix).unwrap_or(lock_key)
    }

    /// The resource whose lock, or whose slots, have this queue.
    pub(crate) fn resource_of_queue<'a>(&self, queue: &'a str) -> &'a str {
        let resource = self.resource_of(queue);
        resource.strip_suffix("{}").unwrap_or(resource)
    }

    pub(crate) fn keys(self: &Arc<Self>, resource: &Resource) -> LockKeys {
        self.keys_named(resource.as_str())
    }

    fn keys_named(self: &Arc<Self>, name: &str) -> LockKeys {
        match split_slot(name) {
            Some((resource, slot)) => LockKeys::of_slot(self, resource, slot),
            None => LockKeys::new(self, name),
        }
    }
}

/// How long the name of the [field](LockKeys::queue_field) of a lock is at most.
const FIELD_LEN: usize = "q16384".len();

/// The keys of one lock. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeys(Arc<Names>);

#[derive(Debug, PartialEq, Eq)]
struct Names {
    keyspace: Arc<Keyspace>,
    /// The lock key, the queue if it is another one, and the field: one string, because all are made for each acquisition.
    text: String,
    lock_key: usize,
    queue: Range<usize>,
    fence: u16,
    queue_fence: u16,
    slot: Option<u32>,
}

impl LockKeys {
    /// The keys of the lock on `resource`, whose name is not checked here.
    pub fn new(keyspace: &Arc<Keyspace>, resource: &str) -> Self {
        let mut lock_key = String::with_capacity(keyspace.prefix.len() + resource.len() + FIELD_LEN);
        lock_key.push_str(&keyspace.prefix);
        lock_key.push_str(resource);
        let fence = fence_of(&lock_key);
        Self::with(keyspace, lock_key, fence, None)
    }

    /// The keys of one slot of `resource`, whose name is not checked here: a lock with a key and a fence of its own. All slots of a
    /// resource have one queue. The lock on the resource itself has another one: it has nothing to do with the slots.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use lock_core::node::{Keyspace, LockKeys};
    ///
    /// let keyspace = Arc::new(Keyspace::new("shop:"));
    /// let slot = LockKeys::of_slot(&keyspace, "export", 2);
    /// assert_eq!((slot.lock_key(), slot.queue()), ("shop:export{2}", "shop:export{}"));
    /// ```
    pub fn of_slot(keyspace: &Arc<Keyspace>, resource: &str, slot: u32) -> Self {
        let lock_key = [&keyspace.prefix, &*slot_name(resource, slot)].concat();
        let queue = [&keyspace.prefix, resource, "{}"].concat();
        let fence = fence_of(&lock_key);
        Self::with(keyspace, lock_key, fence, Some((slot, queue)))
    }

    /// The keys of a lock, or of a slot with the queue of all slots.
    fn with(keyspace: &Arc<Keyspace>, lock_key: String, fence: u16, slot: Option<(u32, String)>) -> Self {
        let (slot, queue) = slot.unzip();
        let end = lock_key.len();
        let mut text = lock_key;
        let (queue, queue_fence) = match queue {
            Some(queue) => {
                text.push_str(&queue);
                (end..text.len(), fence_of(&queue))
            }
            None => (0..end, fence),
        };
        // Writing to a string does not fail.
        _ = write!(text, "q{queue_fence}");
        Self(Arc::new(Names { keyspace: Arc::clone(keyspace), text, lock_key: end, queue, fence, queue_fence, slot }))
    }

    /// The keys of another slot of the same resource; of the same lock, if it has no slots.
    pub(crate) fn with_slot(&self, slot: u32) -> Self {
        let keyspace = self.keyspace();
        match self.slot() {
            Some(present) if present != slot => Self::of_slot(keyspace, keyspace.resource_of_queue(self.queue()), slot),
            _ => self.clone(),
        }
    }

    /// The keyspace that they belong to.
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.0.keyspace
    }

    /// The key that holds the owner id, as in every other Redlock.
    pub fn lock_key(&self) -> &str {
        &self.0.text[..self.0.lock_key]
    }

    /// What the queue belongs to, on the nodes and in a manager: the lock key, or what the lock keys of all slots have in common.
    pub fn queue(&self) -> &str {
        &self.0.text[self.0.queue.clone()]
    }

    /// Whether two locks have a fence or a queue in common, so that the order of requests about them matters.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        let of = |keys: &Self| [keys.fence(), keys.queue_fence()];
        of(self).iter().any(|number| of(other).contains(number))
    }

    /// Which slot this is; `None` for a lock without slots.
    pub fn slot(&self) -> Option<u32> {
        self.0.slot
    }

    /// Which of the node's [fences](Keyspace::FENCES) counts the tokens of this lock: the name of a field of its record.
    pub fn fence(&self) -> u16 {
        self.0.fence
    }

    /// A number that all locks with one queue have in common: the fence, or for a slot the fence that a lock with the key `queue()`
    /// would have.
    pub(crate) fn queue_fence(&self) -> u16 {
        self.0.queue_fence
    }

    /// The field of the node's record that says until when locks with this number may have a queue.
    pub(crate) fn queue_field(&self) -> &str {
        // Behind the queue, which stands behind the lock key if it is another one.
        &self.0.text[self.0.queue.end..]
    }
}

/// The key of a map by [`LockKeys::queue`]: without a copy of the name.
#[derive(Clone)]
pub(crate) struct ByQueue(pub(crate) LockKeys);

impl Borrow<str> for ByQueue {
    fn borrow(&self) -> &str {
        self.0.queue()
    }
}

impl Hash for ByQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.queue().hash(state);
    }
}

impl PartialEq for ByQueue {
    fn eq(&self, other: &Self) -> bool {
        self.0.queue() == other.0.queue()
    }
}

impl Eq for ByQueue {}

/// Every process and every version must compute the same fence, otherwise they would count the tokens of one lock in different places.
fn fence_of(lock_key: &str) -> u16 {
    const { assert!(Keyspace::FENCES.is_power_of_two()) };
    let [low, next, ..] = hash(lock_key).to_le_bytes();
    u16::from_le_bytes([low, next]) % Keyspace::FENCES
}

#[cfg(test)]
mod tests;
