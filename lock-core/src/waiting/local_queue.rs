use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handover::HandoverTerms;
use super::pending_wakeups::PendingWakeups;
use crate::cluster::NodeSet;
use crate::error::NodeVote;
use crate::mutex::Mutex;
use crate::node::{ByQueue, LockKeys};

/// The callers of one manager that wait for the same lock, and what the caller at the front found out last.
///
/// `H` is what is handed over to a waiter.
pub(super) struct LocalQueue<H> {
    /// The callers behind the one at the front. Bounded by `max_waiters`.
    waiters: BTreeMap<u64, Waiter<H>>,
    /// The ticket of the next one. A ticket is used once: a waiter that was handed something may return its own later.
    next_ticket: u64,
    /// The template of the caller that came first. As a rule, all callers of one lock have the same one.
    template: Option<Arc<str>>,
    /// Whether the caller at the front waits, too: the lock is held by another process.
    pub(super) front_waits: bool,
    /// Where the caller at the front can be handed a slot, while it waits.
    front_waiter: Option<Waiter<H>>,
    /// Whether the caller at the front holds the lock. Never for slots, where the turn is passed on at once.
    pub(super) is_held: bool,
    pub(super) last_attempt: LastAttempt,
}

struct Waiter<H> {
    terms: HandoverTerms,
    sender: oneshot::Sender<H>,
}

/// What the last attempt of the caller at the front found out.
#[derive(Clone, Default)]
pub(crate) struct LastAttempt {
    /// The votes, if it failed.
    pub(crate) votes: Arc<[NodeVote]>,
    /// Whether it failed because no majority of the nodes replied.
    pub(crate) had_no_quorum: bool,
    /// The nodes that hold the lock for this process, if it succeeded.
    pub(crate) ours: NodeSet,
    /// When the holder's key expires, unless it is renewed.
    pub(crate) free_at: Option<Instant>,
}

impl<H> LocalQueue<H> {
    /// The queue of the caller at the front.
    pub(super) fn new(template: Option<Arc<str>>) -> Self {
        Self {
            waiters: BTreeMap::new(),
            next_ticket: 0,
            template,
            front_waits: false,
            front_waiter: None,
            is_held: false,
            last_attempt: LastAttempt::default(),
        }
    }

    /// The template of the resource, and how many callers have asked for the lock and do not hold it.
    pub(super) fn waiting(&self) -> (Option<Arc<str>>, usize) {
        (self.template.clone(), self.waiters.len() + usize::from(!self.is_held))
    }

    /// Adds a waiter at the end, and returns its ticket; or how many wait already, if that is `max_waiters`.
    pub(super) fn push(
        &mut self,
        terms: HandoverTerms,
        sender: oneshot::Sender<H>,
        max_waiters: usize,
    ) -> Result<u64, usize> {
        let waiting = self.waiters.len() + usize::from(self.front_waits);
        if waiting >= max_waiters {
            return Err(waiting);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.insert(ticket, Waiter { terms, sender });
        Ok(ticket)
    }

    /// Removes a waiter. The value that is returned must be dropped after the queues are unlocked, because dropping it may wake
    /// a task.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<impl Sized + use<H>> {
        self.waiters.remove(&ticket)
    }

    /// Whether anybody waits, or is about to take the lock. A first attempt at one of several slots leaves the others.
    pub(super) fn has_callers_before(&self, slots: bool) -> bool {
        !self.waiters.is_empty() || if slots { self.front_waits } else { !self.is_held }
    }

    /// How many wait behind the caller at the front.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Removes the first waiter if its terms satisfy a condition. Waiters before it that have given up are removed, too.
    pub(super) fn pop_if(&mut self, condition: impl Fn(&HandoverTerms) -> bool) -> Option<oneshot::Sender<H>> {
        loop {
            let first = self.waiters.first_entry()?;
            // Its task has dropped the receiver, and removes the ticket when it locks the queue: that may be a moment later.
            if first.get().sender.is_closed() {
                first.remove();
            } else {
                return condition(&first.get().terms).then(|| first.remove().sender);
            }
        }
    }

    /// Where the caller at the front can be handed a slot from now on; `None` if it does not wait any more. What is returned must
    /// be dropped after the queues are unlocked.
    pub(super) fn set_front_waiter(
        &mut self,
        waiter: Option<(HandoverTerms, oneshot::Sender<H>)>,
    ) -> Option<impl Sized + use<H>> {
        std::mem::replace(&mut self.front_waiter, waiter.map(|(terms, sender)| Waiter { terms, sender }))
    }

    /// As [`pop_if`](Self::pop_if), for a slot. The first of all is the caller at the front, unless it makes an attempt just now.
    pub(super) fn pop_for_slot(&mut self, condition: impl Fn(&HandoverTerms) -> bool) -> Option<oneshot::Sender<H>> {
        match self.front_waiter.take_if(|waiter| waiter.sender.is_closed() || condition(&waiter.terms)) {
            Some(waiter) if !waiter.sender.is_closed() => Some(waiter.sender),
            // It cannot use this slot, but came first: those behind it do not overtake it.
            _ if self.front_waiter.is_some() => None,
            _ => self.pop_if(condition),
        }
    }

    /// Removes all waiters whose terms satisfy a condition.
    pub(super) fn drain_if(&mut self, condition: impl Fn(&HandoverTerms) -> bool) -> Vec<oneshot::Sender<H>> {
        let waiters = std::mem::take(&mut self.waiters).into_iter();
        let (removed, kept): (BTreeMap<_, _>, _) = waiters.partition(|(_, waiter)| condition(&waiter.terms));
        self.waiters = kept;
        removed.into_values().map(|waiter| waiter.sender).collect()
    }
}

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
