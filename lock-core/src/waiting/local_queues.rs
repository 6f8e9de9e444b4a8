use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::handover::HandoverTerms;
use super::local_queue::{LastAttempt, LocalQueue, TicketId};
use super::pending_wakeups::PendingWakeups;
use crate::node::LockKeys;

/// The local queues of a manager, by [`LockKeys::queue`]. A queue exists while a caller has its turn.
pub(super) struct LocalQueues<H> {
    queues: Mutex<HashMap<Arc<str>, LocalQueue<H>>>,
    max_waiters: usize,
}

/// The place of a caller that joined a queue.
pub(super) enum Joined<'a, H> {
    /// At the front: there was no queue. This is where its wake-ups arrive.
    Front(Arc<PendingWakeups>),
    /// Behind others, one of which hands its turn over.
    Behind(QueueTicket<'a, H>, oneshot::Receiver<H>),
}

impl<H> LocalQueues<H> {
    pub(super) fn new(max_waiters: usize) -> Self {
        Self { queues: Mutex::default(), max_waiters }
    }

    /// Begins a queue, or joins the one there is, unless as many as that returned wait there already.
    pub(super) fn join<'a>(
        &'a self,
        keys: &'a LockKeys,
        terms: HandoverTerms,
        template: Option<&Arc<str>>,
    ) -> Result<Joined<'a, H>, usize> {
        match self.lock().entry(keys.queue_shared()) {
            Entry::Vacant(entry) => {
                Ok(Joined::Front(Arc::clone(&entry.insert(LocalQueue::new(template.cloned())).wakeups)))
            }
            Entry::Occupied(mut queue) => {
                let (sender, receiver) = oneshot::channel();
                let id = queue.get_mut().push(terms, sender, self.max_waiters)?;
                Ok(Joined::Behind(QueueTicket { queues: self, queue: keys.queue(), id }, receiver))
            }
        }
    }

    /// Begins a queue, unless there is one.
    pub(super) fn begin(&self, keys: &LockKeys, template: Option<&Arc<str>>) -> Option<Arc<PendingWakeups>> {
        match self.lock().entry(keys.queue_shared()) {
            Entry::Vacant(entry) => Some(Arc::clone(&entry.insert(LocalQueue::new(template.cloned())).wakeups)),
            Entry::Occupied(_) => None,
        }
    }

    /// Does something with a queue, if there is one.
    pub(super) fn with<T>(&self, queue: &str, with: impl FnOnce(&mut LocalQueue<H>) -> T) -> Option<T> {
        self.lock().get_mut(queue).map(with)
    }

    /// Removes the next waiter, to which the turn goes. If there is none and `end` is set, the queue ends.
    pub(super) fn next_waiter(&self, queue: &str, end: bool) -> Option<oneshot::Sender<H>> {
        let mut queues = self.lock();
        let local = queues.get_mut(queue)?;
        (local.front_waits, local.is_held) = (false, false);
        let next = local.pop_if(|_| true);
        if next.is_none() && end {
            queues.remove(queue);
        }
        next
    }

    /// If callers wait for a lock, or are about to take it: what the one at the front found out last. A caller that does not
    /// wait would pass them. It passes nobody while the first of them holds the lock, and no others wait.
    pub(super) fn callers_before(&self, keys: &LockKeys) -> Option<LastAttempt> {
        let queues = self.lock();
        let queue = queues.get(keys.queue()).filter(|queue| queue.has_callers_before(keys.slot().is_some()));
        queue.map(|queue| queue.last_attempt.clone())
    }

    /// The queues that callers wait in: [`LockKeys::queue`], template, and the number of callers.
    pub(super) fn waiting(&self) -> Vec<(Arc<str>, Option<Arc<str>>, usize)> {
        let waiting = |(key, queue): (&Arc<str>, &LocalQueue<H>)| {
            let (template, callers) = queue.waiting();
            (callers > 0).then(|| (Arc::clone(key), template, callers))
        };
        self.lock().iter().filter_map(waiting).collect()
    }

    /// Where the wake-ups for each queue arrive.
    pub(super) fn wakeups(&self) -> Vec<(Arc<str>, Arc<PendingWakeups>)> {
        self.lock().iter().map(|(key, queue)| (Arc::clone(key), Arc::clone(&queue.wakeups))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, LocalQueue<H>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a waiter in a local queue. Dropping it leaves the queue.
pub(super) struct QueueTicket<'a, H> {
    queues: &'a LocalQueues<H>,
    queue: &'a str,
    id: TicketId,
}

impl<H> QueueTicket<'_, H> {
    /// What the caller at the front found out last.
    pub(super) fn last_attempt(&self) -> LastAttempt {
        self.queues.with(self.queue, |queue| queue.last_attempt.clone()).unwrap_or_default()
    }
}

impl<H> Drop for QueueTicket<'_, H> {
    fn drop(&mut self) {
        // Bound to a name, so that it is dropped when the map is unlocked again.
        let _removed = self.queues.with(self.queue, |queue| queue.remove(self.id));
    }
}
