use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::handover::HandoverTerms;
use super::local_queue::{LastAttempt, LocalQueue};
use super::pending_wakeups::PendingWakeups;
use crate::mutex::Mutex;
use crate::node::{ByQueue, LockKeys};

/// The local queues of a manager, by [`LockKeys::queue`]. A queue exists while a caller has its turn.
pub(super) struct LocalQueues<H> {
    queues: Mutex<Queues<H>>,
    max_waiters: usize,
}

type Queues<H> = HashMap<ByQueue, Arc<SharedQueue<H>>>;

/// One of them. The caller that has its turn has it at hand, and need not look for it among all the others.
pub(super) struct SharedQueue<H> {
    local: Mutex<LocalQueue<H>>,
    /// Where the wake-ups for the lock arrive.
    pub(super) wakeups: PendingWakeups,
}

/// The place of a caller that joined a queue.
pub(super) enum Joined<H> {
    /// At the front: there was no queue.
    Front(Arc<SharedQueue<H>>),
    /// Behind others, one of which hands its turn over.
    Behind(QueueTicket<H>, oneshot::Receiver<H>),
}

impl<H> LocalQueues<H> {
    pub(super) fn new(max_waiters: usize) -> Self {
        Self { queues: Mutex::default(), max_waiters }
    }

    /// Begins a queue, or joins the one there is, unless as many as that returned wait there already. Who has waited there before is not
    /// turned away.
    pub(super) fn join(
        &self,
        keys: &LockKeys,
        terms: HandoverTerms,
        template: Option<&Arc<str>>,
        has_waited: bool,
    ) -> Result<Joined<H>, usize> {
        let max_waiters = if has_waited { usize::MAX } else { self.max_waiters };
        match self.queues.lock().entry(ByQueue(keys.clone())) {
            Entry::Vacant(entry) => Ok(Joined::Front(Arc::clone(entry.insert(SharedQueue::new(template))))),
            // Joined while no queue can end: it ends with the last caller that has its turn.
            Entry::Occupied(entry) => {
                let (sender, receiver) = oneshot::channel();
                let queue = Arc::clone(entry.get());
                let id = queue.with(|queue| queue.push(terms, sender, max_waiters))?;
                Ok(Joined::Behind(QueueTicket { queue, id }, receiver))
            }
        }
    }

    /// Begins a queue, unless there is one.
    pub(super) fn begin(&self, keys: &LockKeys, template: Option<&Arc<str>>) -> Option<Arc<SharedQueue<H>>> {
        match self.queues.lock().entry(ByQueue(keys.clone())) {
            Entry::Vacant(entry) => Some(Arc::clone(entry.insert(SharedQueue::new(template)))),
            Entry::Occupied(_) => None,
        }
    }

    /// A queue, if there is one.
    pub(super) fn get(&self, queue: &str) -> Option<Arc<SharedQueue<H>>> {
        self.queues.lock().get(queue).cloned()
    }

    /// Removes the next waiter, to which the turn goes. If there is none, the queue ends.
    pub(super) fn next_waiter_or_end(&self, queue: &SharedQueue<H>, keys: &LockKeys) -> Option<oneshot::Sender<H>> {
        let mut queues = self.queues.lock();
        let next = queue.next_waiter();
        if next.is_none() {
            queues.remove(keys.queue());
        }
        next
    }

    /// All queues, by name.
    pub(super) fn all(&self) -> Vec<(LockKeys, Arc<SharedQueue<H>>)> {
        self.queues.lock().iter().map(|(key, queue)| (key.0.clone(), Arc::clone(queue))).collect()
    }
}

impl<H> SharedQueue<H> {
    fn new(template: Option<&Arc<str>>) -> Arc<Self> {
        let local = Mutex::new(LocalQueue::new(template.cloned()));
        Arc::new(Self { local, wakeups: PendingWakeups::default() })
    }

    /// Does something with the queue. What that returns is dropped when the queue is unlocked again.
    pub(super) fn with<T>(&self, with: impl FnOnce(&mut LocalQueue<H>) -> T) -> T {
        with(&mut self.local.lock())
    }

    /// Removes the next waiter, to which the turn goes.
    pub(super) fn next_waiter(&self) -> Option<oneshot::Sender<H>> {
        self.with(|queue| {
            (queue.front_waits, queue.is_held) = (false, false);
            queue.pop_if(|_| true)
        })
    }
}

/// The place of a waiter in a local queue. Dropping it leaves the queue.
pub(super) struct QueueTicket<H> {
    queue: Arc<SharedQueue<H>>,
    id: u64,
}

impl<H> QueueTicket<H> {
    /// What the caller at the front found out last.
    pub(super) fn last_attempt(&self) -> LastAttempt {
        self.queue.with(|queue| queue.last_attempt.clone())
    }
}

impl<H> Drop for QueueTicket<H> {
    fn drop(&mut self) {
        // Bound to a name, so that it is dropped when the queue is unlocked again.
        let _removed = self.queue.with(|queue| queue.remove(self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Keyspace;
    use crate::options::LockOptions;
    use crate::resource::Resource;

    #[test]
    fn who_has_waited_before_is_not_turned_away_from_a_full_queue() {
        let (queues, terms) = (LocalQueues::<()>::new(1), HandoverTerms::from(&LockOptions::default()));
        let keys = Arc::new(Keyspace::new("")).keys(&Resource::parse("r").unwrap());
        let join = |has_waited| queues.join(&keys, terms, None, has_waited);
        assert!(matches!(join(false), Ok(Joined::Front(_))));
        let _waits = join(false).ok().unwrap();
        assert!(matches!(join(false), Err(1)));
        assert!(matches!(join(true), Ok(Joined::Behind(..))));
    }
}
