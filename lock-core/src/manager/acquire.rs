use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::Instrument as _;

use super::caller::Caller;
use super::check::check_options;
use super::manager::Inner;
use crate::cluster::Member;
use crate::engine::{AttemptKind, AttemptPlace, FailedAttempt, Grant};
use crate::error::{LockError, NodeVote, Vote};
use crate::kind::Kind;
use crate::lease::{Lease, LockGuard, ReadShare};
use crate::limits::InvalidPermits;
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::{Failure, OUTAGE_GRACE};
use crate::resource::Resource;
use crate::waiting::{Entered, HandoverTerms, LastAttempt, LocalHold, NotEntered, Turn, Woken};

/// The first and the longest pause of a caller after an attempt without a majority; its pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause while no caller has a majority: all of them pause for as long as that has been so.
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// How long it takes at least to answer that there is no quorum, with jitter. Nothing may have been sent for it, and callers that
/// try again at once would leave no processor time for reconnecting to the nodes.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(10);

impl Inner {
    /// Takes the lock on a resource.
    pub(super) async fn acquire(&self, resource: &str, options: &LockOptions) -> Result<LockGuard, LockError> {
        let acquiring = Acquiring::begin(&self.engine.cluster.reporter, resource, options);
        let taken = self.take(resource, options, &acquiring).instrument(acquiring.span().clone()).await;
        acquiring.end(taken.as_ref().err());
        taken
    }

    async fn take(
        &self,
        resource: &str,
        options: &LockOptions,
        acquiring: &Acquiring<'_>,
    ) -> Result<LockGuard, LockError> {
        let caller = Caller { resource, options, started: Instant::now(), leases: &self.leases, acquiring };
        let parsed = self.check(&caller)?;
        if let Some(lease) = Lease::in_scope(self.id, &parsed, options.kind) {
            return caller.share(lease).await;
        }
        self.warn_if_out_of_order(&parsed, options);

        // Declared before any guard, so that it is dropped after it: a shutdown waits for what this acquisition has to release.
        let _in_progress = self.engine.tracker.token();
        self.check_open(&caller)?;
        self.engine.home.start();
        self.engine.cluster.first_contact().await;
        let keys = self.turns.first_keys(&parsed, options.kind);
        let taken = if let Some(share) = self.share_reading(&keys, &caller).await {
            Taken::Share(share)
        } else if options.wait.is_zero() {
            let grant = self.try_once(keys, &caller).await?;
            let slot = self.turns.hold_slot(grant.keys());
            Taken::Grant(grant, slot)
        } else {
            self.wait_for(&keys, &caller).await?
        };
        let guard = self.begin_lease(taken, parsed, options.clone(), acquiring);
        // The manager may have been closed meanwhile, and a shutdown that has counted its holders must not miss this one.
        self.check_open(&caller)?;
        Ok(guard)
    }

    /// Checks the name of the resource, and the options.
    pub(super) fn check(&self, &Caller { resource, options, .. }: &Caller<'_>) -> Result<Resource, LockError> {
        let parsed = Resource::parse(resource)
            .map_err(|reason| LockError::InvalidResource { resource: resource.to_owned(), reason })?;
        check_options(options, self.max_ttl)
            .map_err(|reason| LockError::InvalidOptions { resource: resource.to_owned(), reason })?;
        if let Kind::Permit { of } = options.kind {
            InvalidPermits::check(of)
                .map_err(|reason| LockError::InvalidPermits { resource: resource.to_owned(), reason })?;
        }
        Ok(parsed)
    }

    /// Warns once if a caller waits for a lock inside the scope of one that comes after it in the order of sets.
    pub(super) fn warn_if_out_of_order(&self, resource: &Resource, options: &LockOptions) {
        // A caller that does not wait is in no circle of callers that wait for each other.
        if options.wait.is_zero() || self.warned_of_order.load(Ordering::Relaxed) {
            return;
        }
        if let Some(held) = Lease::in_scope_after(self.id, resource)
            && !self.warned_of_order.swap(true, Ordering::Relaxed)
        {
            let reporter = &self.engine.cluster.reporter;
            tracing::warn!(name: "lock.nested_out_of_order",
                resource = reporter.shown(resource.as_str()), held = reporter.shown(held.resource()),
                "a lock is acquired inside the scope of one whose name comes after it: callers that nest the two in opposite \
                 orders wait for each other until their `wait` is over; acquire both with lock_all, or nest locks in the order \
                 of their names; this is logged once");
        }
    }

    /// Begins the lease of a lock that was taken.
    pub(super) fn begin_lease(
        &self,
        taken: Taken,
        resource: Resource,
        options: LockOptions,
        acquiring: &Acquiring<'_>,
    ) -> LockGuard {
        let (leases, span) = (&self.leases, acquiring.caller());
        match taken {
            Taken::Grant(grant, local_hold) if options.kind == Kind::Read => {
                let (nodes, free_at) = (grant.nodes(), grant.sent() + options.ttl);
                let share = ReadShare::first(leases, grant, options.renew);
                if let Some(LocalHold::Turn(mut turn)) = local_hold {
                    // Passed on now, so that the callers behind may read, too, or have their turn to write.
                    turn.lock_taken(nodes, free_at);
                }
                LockGuard::begin_to_read(leases, self.id, resource, options, share, span)
            }
            Taken::Grant(grant, local_hold) => {
                LockGuard::begin(leases, self.id, resource, options, grant, local_hold, span)
            }
            Taken::Share(share) => LockGuard::begin_to_read(leases, self.id, resource, options, share, span),
        }
    }

    /// Shares what another caller of this process reads, unless somebody waits in the local queue, who came before.
    async fn share_reading(&self, keys: &LockKeys, caller: &Caller<'_>) -> Option<ReadShare> {
        // In an outage that lasts, the nodes are not asked.
        let may_ask = caller.options.kind == Kind::Read && !self.engine.outage_lasts();
        if !may_ask || self.turns.callers_before(keys).is_some() {
            return None;
        }
        ReadShare::join(&self.leases, &self.engine, keys, caller.options.into()).await
    }

    /// Makes one attempt. A caller that does not wait takes no place in the local queue, passes nobody who has one, and makes no
    /// second attempt: only if a slot is held, and another one is free.
    async fn try_once(&self, keys: LockKeys, caller: &Caller<'_>) -> Result<Grant, LockError> {
        // In an outage that lasts nobody waits.
        if let Some(last) = self.turns.callers_before(&keys).filter(|_| !self.engine.outage_lasts()) {
            return Err(self.not_entered(caller, NotEntered::TimedOut(last)));
        }
        let mut attempted = self.attempt_once(&keys, caller).await;
        if let Err(FailedAttempt { failure: Failure::Contended { .. }, .. }) = attempted
            && let Some(slot) = self.look(&keys, caller.options).await.and_then(|seen| self.any_of(&seen.free))
        {
            attempted = self.attempt_once(&keys.with_slot(slot), caller).await;
        }
        let failed = match attempted {
            Ok(grant) => return Ok(grant),
            Err(failed) => failed,
        };
        Err(self.answer(caller, failed).await)
    }

    /// The error for the only attempt of a caller that does not wait.
    pub(super) async fn answer(&self, caller: &Caller<'_>, failed: FailedAttempt) -> LockError {
        if let Err(closed) = self.check_open(caller) {
            return closed;
        }
        if failed.failure == Failure::NoQuorum {
            sleep_until(caller.started + self.engine.random.jitter(MIN_ANSWER_TIME)).await;
        }
        caller.failed(failed)
    }

    async fn attempt_once(&self, keys: &LockKeys, caller: &Caller<'_>) -> Result<Grant, FailedAttempt> {
        let place = self.engine.enter_line(AttemptKind::New, caller.started, caller.options.ttl).await?;
        self.engine.attempt(&place, caller.wants(keys, 1), None).await
    }

    /// Waits in the local queue, and then makes one attempt after another, until one succeeds or the caller's time is over.
    pub(super) async fn wait_for(&self, keys: &LockKeys, caller: &Caller<'_>) -> Result<Taken, LockError> {
        let terms = HandoverTerms::from(caller.options);
        let turn = loop {
            let entered = self.turns.enter(keys, caller.options, caller.until()).await;
            match entered.map_err(|reason| self.not_entered(caller, reason))? {
                Entered::Turn(turn) => break turn,
                // Checked again: this task may have slept since the lock was handed over to it.
                Entered::Lock(grant, local_hold) if terms.accept(&grant) => {
                    return Ok(Taken::Grant(grant, Some(local_hold)));
                }
                Entered::Lock(grant, LocalHold::Turn(turn)) => {
                    drop(grant);
                    break turn;
                }
                Entered::Lock(_grant, LocalHold::Slot(_slot)) => {}
            }
        };
        if caller.options.kind == Kind::Read
            && let Some(share) = ReadShare::join(&self.leases, &self.engine, keys, terms).await
        {
            return Ok(Taken::Share(share));
        }
        self.wait_with(turn, caller).await
    }

    /// Makes one attempt after another while it has the turn, until one succeeds or the caller's time is over.
    pub(super) async fn wait_with(&self, mut turn: Turn, caller: &Caller<'_>) -> Result<Taken, LockError> {
        let (options, until, terms) = (caller.options, caller.until(), HandoverTerms::from(caller.options));
        let (mut kind, mut pause, mut found_free) = (AttemptKind::New, BACKOFF.0, false);
        loop {
            self.check_open(caller)?;
            let (place, attempt) = match self.engine.enter_line(kind, until, options.ttl).await {
                Ok(place) => {
                    let keys = turn.keys().clone();
                    let wanted = caller.wants(&keys, turn.tokens());
                    let attempt = self.engine.attempt(&place, wanted, Some(turn.begin_attempt())).await;
                    (Some(place), attempt)
                }
                Err(failed) => (None, Err(failed)),
            };
            let failed = match attempt {
                Ok(mut grant) => {
                    let local_hold = match options.kind {
                        Kind::Write | Kind::Read => Some(LocalHold::Turn(turn)),
                        Kind::Permit { .. } => {
                            turn.slot_taken(&mut grant);
                            self.turns.hold_slot(grant.keys())
                        }
                    };
                    return Ok(Taken::Grant(grant, local_hold));
                }
                Err(failed) => failed,
            };
            let mut free_in = match failed.failure {
                Failure::NoQuorum if Instant::now() < until && !self.engine.outage_lasts() => {
                    turn.had_no_quorum(&failed.votes);
                    // With the place: the manager makes fewer attempts while the nodes do not keep up.
                    self.ride_out(place, pause, until).await;
                    pause = (pause * 2).min(BACKOFF.1);
                    continue;
                }
                Failure::NoQuorum => {
                    self.check_open(caller)?;
                    if self.engine.outage_lasts() {
                        turn.report_no_quorum(&failed.votes, options.ttl);
                    }
                    sleep_until(caller.started + self.engine.random.jitter(MIN_ANSWER_TIME)).await;
                    return Err(caller.failed(failed));
                }
                // Another slot may be a lock.
                Failure::Contended { .. } if failed.is_not_a_lock() && !options.kind.has_slots() => {
                    return Err(caller.failed(failed));
                }
                Failure::Contended { free_in } => free_in,
                Failure::Expired => Some(Duration::ZERO),
            };
            drop(place);
            // Now that the caller is in the queue, no slot is released without it.
            if let Some(seen) = self.look(turn.keys(), options).await {
                if let Some(slot) = self.any_of(&seen.free) {
                    turn.try_slot(slot);
                    found_free = !found_free;
                    if found_free {
                        continue;
                    }
                    // Several callers found the same one, or it is kept for those that have waited longer.
                    free_in = Some(Duration::ZERO);
                } else if let Some((slot, in_time)) = seen.next {
                    turn.try_slot(slot);
                    free_in = Some(in_time);
                }
            }
            found_free = false;
            match turn.wait(&failed, free_in, until).await {
                Woken::TryAgain => kind = AttemptKind::Woken,
                Woken::Slot(grant) if terms.accept(&grant) => {
                    let slot = self.turns.hold_slot(grant.keys());
                    return Ok(Taken::Grant(grant, slot));
                }
                Woken::Slot(_grant) => {}
                Woken::TimedOut => return Err(caller.failed(failed)),
                Woken::Closed => self.check_open(caller)?,
            }
        }
    }

    /// Pauses before another attempt after one without a majority, and waits until a majority votes: not beyond the caller's time,
    /// and not when the quorum has been lost for a second.
    async fn ride_out(&self, _place: Option<AttemptPlace<'_>>, pause: Duration, until: Instant) {
        let (cluster, now) = (&self.engine.cluster, self.engine.cluster.now());
        let lost_for = now.saturating_sub(cluster.outage().lost_since(now).unwrap_or(now));
        let pause = self.engine.random.jitter(pause.max(lost_for.min(MAX_PAUSE)));
        let answered_at = Instant::now() + OUTAGE_GRACE.saturating_sub(lost_for);
        let quorum_is_back = async {
            sleep(pause).await;
            cluster.quorum_is_back().await;
        };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            _ = timeout_at(until.min(answered_at), quorum_is_back) => {}
        }
    }

    pub(super) fn check_open(&self, caller: &Caller<'_>) -> Result<(), LockError> {
        if self.closing.is_cancelled() {
            return Err(LockError::ShuttingDown {
                resource: caller.resource.to_owned(),
                waited: caller.started.elapsed(),
            });
        }
        Ok(())
    }

    pub(super) fn not_entered(&self, caller: &Caller<'_>, reason: NotEntered) -> LockError {
        let (resource, waited) = (caller.resource.to_owned(), caller.started.elapsed());
        match reason {
            NotEntered::QueueFull(waiters) => {
                LockError::QueueFull { resource, waiters, typical_hold: caller.typical_hold() }
            }
            NotEntered::TimedOut(last) if last.had_no_quorum => {
                LockError::NoQuorum { resource, waited, votes: last.votes.to_vec() }
            }
            NotEntered::TimedOut(last) => {
                let free_in = last.free_at.map(|free_at| free_at.saturating_duration_since(Instant::now()));
                let (typical_hold, votes) = (caller.typical_hold(), self.votes_of(&last, free_in));
                LockError::Contended { resource, waited, free_in, typical_hold, votes }
            }
            NotEntered::NoQuorum(votes) => LockError::NoQuorum { resource, waited, votes: votes.to_vec() },
            NotEntered::Closed => LockError::ShuttingDown { resource, waited },
        }
    }

    /// The votes of the last attempt in a local queue. If it took the lock for another caller of this process, the nodes that
    /// hold it are known, and the others' votes are not.
    fn votes_of(&self, last: &LastAttempt, remaining: Option<Duration>) -> Vec<NodeVote> {
        if !last.votes.is_empty() {
            return last.votes.to_vec();
        }
        let vote = |(node, member): (usize, &Member)| {
            let vote = if last.ours.contains(node) { Vote::Held { remaining } } else { Vote::Pending };
            NodeVote { node: member.node.name().to_owned(), vote }
        };
        self.engine.cluster.members.iter().enumerate().map(vote).collect()
    }
}

/// What a caller took.
#[expect(clippy::large_enum_variant, reason = "moved once, to the lease that begins with it")]
pub(super) enum Taken {
    /// From the nodes, or from the caller before it.
    Grant(Grant, Option<LocalHold>),
    /// Beside other readers of this process.
    Share(ReadShare),
}
