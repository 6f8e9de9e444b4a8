use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::handover::Handover;
use super::last_slots::LastSlots;
use super::local_hold::LocalSlot;
use super::local_queue::{LastAttempt, LocalQueue, TicketId};
use super::wakeups::Wakeups;
use super::{HandoverTerms, LocalHold, Turn};
use crate::engine::{Engine, Grant};
use crate::error::NodeVote;
use crate::node::LockKeys;
use crate::options::LockOptions;
use crate::resource::Resource;

/// The local queues of a manager.
pub(crate) struct LocalQueues {
    pub(super) engine: Arc<Engine>,
    /// By [`LockKeys::queue`]. A queue exists while a caller has its [`Turn`].
    queues: Mutex<HashMap<Arc<str>, LocalQueue>>,
    pub(super) wakeups: Arc<Wakeups>,
    pub(super) last_slots: LastSlots,
    max_waiters: usize,
    pub(super) closing: CancellationToken,
}

/// How a caller came to the front.
pub(crate) enum Entered {
    /// The lock has to be taken from the nodes.
    Turn(Turn),
    /// The previous holder handed the lock over.
    Lock(Grant, LocalHold),
}

/// Why a caller did not come to the front.
pub(crate) enum NotEntered {
    /// This many callers wait already.
    QueueFull(usize),
    /// Its wait is over, or it does not wait. With what the caller at the front found out last.
    TimedOut(LastAttempt),
    /// The caller at the front found no majority of the nodes.
    NoQuorum(Arc<[NodeVote]>),
    /// The manager was closed.
    Closed,
}

impl LocalQueues {
    pub(crate) fn new(engine: &Arc<Engine>, max_waiters: usize, closing: CancellationToken) -> Arc<Self> {
        Arc::new_cyclic(|queues| Self {
            engine: Arc::clone(engine),
            queues: Mutex::default(),
            wakeups: Wakeups::new(engine, queues.clone()),
            last_slots: LastSlots::default(),
            max_waiters,
            closing,
        })
    }

    /// Waits in the local queue until it is the caller's turn.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the queue at once; a turn or a lock that was just passed to it goes to the next caller.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        keys: &LockKeys,
        options: &LockOptions,
        until: Instant,
    ) -> Result<Entered, NotEntered> {
        let terms = HandoverTerms::from(options);
        let (ticket, mut receiver) = match self.lock().entry(keys.queue_shared()) {
            Entry::Vacant(entry) => {
                let wakeups = Arc::clone(&entry.insert(LocalQueue::new(options.template.clone())).wakeups);
                return Ok(Entered::Turn(Turn::new(self, keys, terms, wakeups)));
            }
            Entry::Occupied(mut queue) => {
                let (sender, receiver) = oneshot::channel();
                let id = queue.get_mut().push(terms, sender, self.max_waiters).map_err(NotEntered::QueueFull)?;
                (QueueTicket { queues: self, keys, id }, receiver)
            }
        };
        tokio::select! {
            biased;
            handover = &mut receiver => match handover {
                Ok(Handover::Turn(turn)) => Ok(Entered::Turn(turn.pass_to(keys, terms))),
                Ok(Handover::Lock(grant, turn)) => {
                    Ok(Entered::Lock(grant, LocalHold::Turn(turn.pass_to(keys, terms))))
                }
                Ok(Handover::Slot(grant, slot)) => Ok(Entered::Lock(grant, LocalHold::Slot(slot))),
                Ok(Handover::NoQuorum(votes)) => Err(NotEntered::NoQuorum(votes)),
                // Not reached: a turn that is dropped is passed on first.
                Err(_) => Err(NotEntered::Closed),
            },
            () = self.closing.cancelled() => Err(NotEntered::Closed),
            () = sleep_until(until) => Err(NotEntered::TimedOut(ticket.last_attempt())),
        }
    }

    /// The turn to try for a lock, unless another caller has it: does not wait.
    pub(crate) fn try_enter(self: &Arc<Self>, keys: &LockKeys, options: &LockOptions) -> Option<Turn> {
        match self.lock().entry(keys.queue_shared()) {
            Entry::Vacant(entry) => {
                let wakeups = Arc::clone(&entry.insert(LocalQueue::new(options.template.clone())).wakeups);
                Some(Turn::new(self, keys, options.into(), wakeups))
            }
            Entry::Occupied(_) => None,
        }
    }

    /// The keys to try first: those of the lock, or of the slot that is most likely to be free.
    pub(crate) fn first_keys(&self, resource: &Resource, permits: Option<u32>) -> LockKeys {
        let (keyspace, random) = (&self.engine.cluster.keyspace, &self.engine.random);
        let Some(permits) = permits else { return keyspace.keys(resource) };
        let any = LockKeys::of_slot(keyspace, resource.as_str(), 0);
        any.with_slot(self.last_slots.take(any.queue(), permits, || random.number()))
    }

    /// What a caller has that took a slot without waiting; nothing, if it took a lock without slots.
    pub(crate) fn hold_slot(self: &Arc<Self>, keys: &LockKeys) -> Option<LocalHold> {
        keys.slot().map(|_| LocalHold::Slot(LocalSlot::new(self, keys)))
    }

    /// If callers wait for a lock, or are about to take it: what the one at the front found out last. A caller that does not
    /// wait would pass them. It passes nobody while the first of them holds the lock, and no others wait.
    pub(crate) fn callers_before(&self, keys: &LockKeys) -> Option<LastAttempt> {
        let queues = self.lock();
        let queue = queues.get(keys.queue()).filter(|queue| queue.has_callers_before(keys.slot().is_some()));
        queue.map(|queue| queue.last_attempt.clone())
    }

    /// The queues that callers wait in: [`LockKeys::queue`], template, and the number of callers.
    pub(crate) fn waiting(&self) -> Vec<(Arc<str>, Option<Arc<str>>, usize)> {
        let queues = self.lock();
        let waiting = |(key, queue): (&Arc<str>, &LocalQueue)| {
            let (template, callers) = queue.waiting();
            (callers > 0).then(|| (Arc::clone(key), template, callers))
        };
        queues.iter().filter_map(waiting).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, LocalQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a waiter in a local queue. Dropping it leaves the queue.
struct QueueTicket<'a> {
    queues: &'a LocalQueues,
    keys: &'a LockKeys,
    id: TicketId,
}

impl QueueTicket<'_> {
    fn last_attempt(&self) -> LastAttempt {
        self.queues.lock().get(self.keys.queue()).map(|queue| queue.last_attempt.clone()).unwrap_or_default()
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        // Bound to a name, so that it is dropped when the map is unlocked again.
        let _removed = self.queues.lock().get_mut(self.keys.queue()).and_then(|queue| queue.remove(self.id));
    }
}
