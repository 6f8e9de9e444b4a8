use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::handover::HandoverTerms;
use super::last_slots::LastSlots;
use super::listening::Listening;
use super::local_queue::{Joined, LastAttempt, LocalQueues};
use super::turn::{Handover, LocalHold, Turn, Turns};
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::kind::Kind;
use crate::node::LockKeys;
use crate::options::LockOptions;
use crate::resource::Resource;

/// Why a caller did not come to the front.
pub(crate) enum NotEntered {
    /// This many callers wait already.
    QueueFull(usize),
    /// Its wait is over, or it does not wait. With what the caller at the front found out last.
    TimedOut(LastAttempt),
    /// The manager was closed.
    Closed,
}

impl Turns {
    pub(crate) fn new(engine: &Arc<Engine>, max_waiters: usize) -> Arc<Self> {
        Arc::new_cyclic(|turns| {
            let listening = Arc::new(Listening::new(&engine.cluster, turns));
            engine.background.home.add({
                let listening = Arc::clone(&listening);
                move || Arc::clone(&listening).listen()
            });
            Self {
                engine: Arc::clone(engine),
                queues: LocalQueues::new(max_waiters),
                listening,
                last_slots: LastSlots::default(),
            }
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
        has_waited: bool,
    ) -> Result<Handover, NotEntered> {
        let terms = HandoverTerms::from(options);
        let joined = self.queues.join(keys, terms, options.template.as_ref(), has_waited);
        let joined = joined.map_err(NotEntered::QueueFull)?;
        let (ticket, receiver) = match joined {
            Joined::Front(queue) => return Ok(Handover::Turn(Turn::new(self, queue, keys, terms))),
            Joined::Behind(ticket, receiver) => (ticket, receiver),
        };
        // Behind others, until one of them hands its turn over. Boxed, because usually there are none.
        let handed_over = async move {
            tokio::select! {
                biased;
                // Not reached if there is no handover: a turn that is dropped is passed on first.
                handover = receiver => handover.map_err(|_| NotEntered::Closed),
                () = self.engine.background.closing.cancelled() => Err(NotEntered::Closed),
                () = sleep_until(until) => Err(NotEntered::TimedOut(ticket.last_attempt())),
            }
        };
        Ok(match Box::pin(handed_over).await? {
            Handover::Turn(turn) => Handover::Turn(turn.pass_to(keys, terms)),
            Handover::Lock(grant, LocalHold::Turn(turn)) => {
                Handover::Lock(grant, LocalHold::Turn(turn.pass_to(keys, terms)))
            }
            other => other,
        })
    }

    /// The turn to try for a lock, unless another caller has it: does not wait.
    pub(crate) fn try_enter(self: &Arc<Self>, keys: &LockKeys, options: &LockOptions) -> Option<Turn> {
        let queue = self.queues.begin(keys, options.template.as_ref())?;
        Some(Turn::new(self, queue, keys, options.into()))
    }

    /// The keys to try first: the lock's, or those of the slot that is most likely to be free.
    pub(crate) fn first_keys(&self, resource: &Resource, kind: Kind) -> LockKeys {
        let Cluster { keyspace, random, .. } = &*self.engine.cluster;
        match kind {
            Kind::Write | Kind::Read => keyspace.keys(resource),
            Kind::Permit { of } => {
                let any = LockKeys::of_slot(keyspace, resource.as_str(), 0);
                any.with_slot(self.last_slots.take(any.queue(), of, || random.number()))
            }
        }
    }

    /// If callers wait for a lock, or are about to take it: what the one at the front found out last. A caller that does not
    /// wait would pass them. It passes nobody while the first of them holds the lock, and no others wait.
    pub(crate) fn callers_before(&self, keys: &LockKeys) -> Option<LastAttempt> {
        let queue = self.queues.get(keys.queue())?;
        queue.with(|queue| queue.has_callers_before(keys.slot().is_some()).then(|| queue.last_attempt.clone()))
    }

    /// The locks that callers wait for; or one of the slots: with the template, and the number of callers.
    pub(crate) fn waiting(&self) -> Vec<(LockKeys, Option<Arc<str>>, usize)> {
        let waiting = self.queues.all().into_iter().map(|(keys, queue)| {
            let (template, callers) = queue.with(|queue| queue.waiting());
            (keys, template, callers)
        });
        waiting.filter(|(_, _, callers)| *callers > 0).collect()
    }
}
