use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handover::HandoverTerms;
use crate::cluster::NodeSet;
use crate::error::NodeVote;

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
