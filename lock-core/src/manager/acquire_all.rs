use futures_util::future::join_all;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::acquire::Taken;
use super::caller::Caller;
use super::manager::Inner;
use super::set_request::SetMember;
use super::shards::Shard;
use crate::engine::{AttemptKind, FailedAttempt, Grant, Wanted};
use crate::error::LockError;
use crate::lease::{Lease, Leases, LockGuard, ReadShare, SetGuard, any_lost, is_still_held, tie};
use crate::limits::{MAX_HOLD, MAX_SET_LEN};
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::{Failure, Verdict, kept_of_batch, set_order};
use crate::resource::Resource;
use crate::waiting::{LocalHold, Turn};

/// A lock of a set that has to be taken from the nodes.
struct SetLock<'a> {
    caller: Caller<'a>,
    resource: Resource,
    keys: LockKeys,
}

/// A lock of a set that an outer scope holds.
struct OuterLock<'a> {
    caller: Caller<'a>,
    lease: Lease,
}

impl Inner {
    /// Takes the locks of a set: all or none. Of two members with one name, the first counts: those to write come before those to read.
    pub(super) async fn acquire_all(&self, set: &[SetMember]) -> Result<SetGuard, LockError> {
        if !(1..=MAX_SET_LEN).contains(&set.len()) {
            let resource = set.first().map(|member| member.resource.clone()).unwrap_or_default();
            return Err(LockError::InvalidSet { resource, resources: set.len() });
        }
        // One order for all callers of all processes. Two that waited for each other would each hold what comes behind what it
        // waits for.
        let order = set_order(set.iter().map(|member| member.resource.as_str()));
        let first_with = |resource: &&str| set.iter().find(|member| member.resource == *resource);
        let members: Vec<_> = order.iter().filter_map(first_with).collect();
        let reporter = self.reporter();
        let acquiring: Vec<_> =
            members.iter().map(|member| Acquiring::begin(reporter, &member.resource, &member.options)).collect();
        let taken = self.take_all(set, &members, &acquiring).await;
        for acquiring in acquiring {
            acquiring.end(taken.as_ref().err());
        }
        taken
    }

    /// Takes the locks of a set: `members` has each of them once, in the order in which they are taken.
    async fn take_all(
        &self,
        set: &[SetMember],
        members: &[&SetMember],
        acquiring: &[Acquiring<'_>],
    ) -> Result<SetGuard, LockError> {
        let (mut locks, mut outer) = (Vec::with_capacity(members.len()), Vec::new());
        for (SetMember { resource, options }, acquiring) in members.iter().copied().zip(acquiring) {
            let (shard, leases) = (self.shard_of(resource), &self.leases);
            let caller = Caller { resource, options, shard, leases, acquiring };
            let resource = self.check(&caller)?;
            match Lease::in_scope(self.id, &resource, options.kind) {
                Some(lease) => {
                    caller.check_kind(&lease)?;
                    outer.push(OuterLock { caller, lease });
                }
                None => {
                    locks.push(SetLock {
                        caller,
                        keys: caller.shard.engine.cluster.keyspace.keys(&resource),
                        resource,
                    });
                }
            }
        }
        // Declared before any guard, so that it is dropped after it: a shutdown waits for what this acquisition has to release.
        let _in_progress = self.background.tracker.token();
        let guards = match locks.first() {
            None => share_together(&outer).await?,
            Some(SetLock { caller, resource, .. }) => {
                self.warn_if_out_of_order(resource, caller.options);
                caller.check_open()?;
                self.background.home.start();
                join_all(locks.iter().map(|lock| lock.caller.shard.engine.first_contact())).await;
                let guards = self.take_locks(&locks, &outer).await?;
                // The manager may have been closed meanwhile, and a shutdown that has counted its holders must not miss this one.
                caller.check_open()?;
                guards
            }
        };
        let guard_of = |member: &SetMember| guards.iter().find(|guard| guard.resource() == member.resource);
        let leases = Leases::new(set.iter().filter_map(guard_of).map(LockGuard::lease));
        Ok(SetGuard::new(leases, guards))
    }

    /// Takes the locks that no outer scope holds, and binds them to each other and to those of the `outer` scopes. Returns the guards of
    /// all of them.
    async fn take_locks(&self, locks: &[SetLock<'_>], outer: &[OuterLock<'_>]) -> Result<Vec<LockGuard>, LockError> {
        let first = &locks[0].caller;
        let leases: Vec<_> = outer.iter().map(|lock| lock.lease.clone()).collect();
        loop {
            let gathered = if first.options.wait.is_zero() {
                Some(self.try_all_once(locks).await?)
            } else {
                self.gather(locks, &leases).await?
            };
            let mut incomplete = first.expired();
            if let Some(mut guards) = gathered {
                // Before the set is complete: these may have to be renewed first.
                let shared = share_all(outer).await?;
                match self.complete(locks, &guards, &leases).await {
                    Ok(()) => {
                        outer.iter().try_for_each(|lock| lock.caller.check_kind(&lock.lease))?;
                        guards.extend(shared);
                        return Ok(guards);
                    }
                    Err(reason) => incomplete = reason,
                }
            }
            // From the beginning, unless an outer lease was lost: that one cannot be acquired again in its own scope.
            leases.iter().try_for_each(Lease::check)?;
            first.check_open()?;
            if Instant::now() >= first.until() {
                return Err(incomplete);
            }
        }
    }

    /// Makes the leases of a set one, and counts `max_hold` from now on. The nodes are asked again about those that were taken a while
    /// ago: they may have been evicted, or have less validity left than the caller asks for.
    ///
    /// # Errors
    ///
    /// What to tell the caller if its time is over: one of the locks was lost, or has too little validity left, or too few nodes said
    /// whether it is still held.
    async fn complete(&self, locks: &[SetLock<'_>], guards: &[LockGuard], outer: &[Lease]) -> Result<(), LockError> {
        let first = &locks[0].caller;
        let LockOptions { min_validity, max_hold, .. } = *first.options;
        let own: Vec<_> = guards.iter().map(LockGuard::lease).collect();
        let verdicts = join_all(own.iter().map(|lease| is_still_held(&self.leases, lease, min_validity))).await;
        for (verdict, lock) in verdicts.into_iter().zip(locks) {
            match verdict {
                Verdict::Held => {}
                Verdict::Lost => return Err(first.expired()),
                Verdict::Unknown => return Err(lock.caller.no_quorum()),
            }
        }
        if own.iter().chain(outer).any(|lease| lease.remaining() < min_validity) {
            return Err(first.expired());
        }
        tie(&own, outer);
        own.iter().for_each(|lease| self.leases.begin_hold(lease, max_hold));
        if own.iter().chain(outer).all(Lease::is_valid) { Ok(()) } else { Err(first.expired()) }
    }

    /// Makes one attempt for each lock. A caller that does not wait passes nobody who has a place in a local queue.
    async fn try_all_once(&self, locks: &[SetLock<'_>]) -> Result<Vec<LockGuard>, LockError> {
        for SetLock { caller, keys, .. } in locks {
            let Shard { engine, turns } = caller.shard;
            if let Some(last) = turns.callers_before(keys).filter(|_| !engine.outage_lasts()) {
                return Err(caller.answer_behind(last).await);
            }
        }
        // One token each: without a turn, there is no caller behind this one to whom the lock could be handed over.
        let wanted: Vec<_> = locks.iter().map(|lock| (lock.caller.shard, lock.caller.wants(&lock.keys, 1))).collect();
        let outcomes = self.attempt_all(&wanted, AttemptKind::New, locks[0].caller.started()).await;
        let (mut taken, mut outcomes) = (Vec::with_capacity(locks.len()), outcomes.into_iter().zip(locks));
        while let Some((outcome, lock)) = outcomes.next() {
            match outcome {
                Ok(grant) => taken.push(Taken::Grant(grant, None)),
                Err(failed) => match lock.share_if_held(&failed).await {
                    Some(share) => taken.push(Taken::Share(share)),
                    None => {
                        // What was granted is released before the caller is answered.
                        drop((taken, outcomes));
                        return Err(lock.caller.answer(failed).await);
                    }
                },
            }
        }
        Ok(taken.into_iter().zip(locks).map(|(taken, lock)| self.begin(lock, taken)).collect())
    }

    /// Takes all locks, one batch after another. Between them, the caller waits for the first lock that it did not get, and holds
    /// only those that come before it. `None` if one of these was lost meanwhile.
    async fn gather(&self, locks: &[SetLock<'_>], outer: &[Lease]) -> Result<Option<Vec<LockGuard>>, LockError> {
        let mut held: Vec<LockGuard> = Vec::with_capacity(locks.len());
        while let Some(first) = locks.get(held.len()) {
            first.caller.check_open()?;
            let mut turn = None;
            // A lock alone has its attempt where it is waited for.
            if let rest @ [_, _, ..] = &locks[held.len()..] {
                let kind = if held.is_empty() { AttemptKind::New } else { AttemptKind::Woken };
                let batch = unless_lost(&held, outer, self.batch(rest, kind)).await;
                let Some((granted, next)) = batch else { return Ok(None) };
                let begin = |(lock, (grant, turn))| self.begin(lock, Taken::Grant(grant, Some(LocalHold::Turn(turn))));
                held.extend(rest.iter().zip(granted).map(begin));
                turn = next;
            }
            let Some(lock) = locks.get(held.len()) else { break };
            let waiting = async {
                match turn {
                    Some(turn) => lock.caller.try_with_turn(&lock.keys, turn).await,
                    None => lock.caller.enter_queue_and_try(&lock.keys).await,
                }
            };
            let waiting = waiting.instrument(lock.caller.acquiring.span.clone());
            let Some(taken) = unless_lost(&held, outer, waiting).await else { return Ok(None) };
            held.push(self.begin(lock, taken?));
        }
        Ok(Some(held))
    }

    /// Makes one attempt for each of these locks, up to the first whose turn is another caller's. Returns what it keeps, and the turn
    /// of the first lock behind that, if it has it. All behind that is released, and its turns passed on.
    async fn batch(&self, locks: &[SetLock<'_>], kind: AttemptKind) -> (Vec<(Box<Grant>, Turn)>, Option<Turn>) {
        let turn_of = |lock: &SetLock<'_>| lock.caller.shard.turns.try_enter(&lock.keys, lock.caller.options);
        let mut turns: Vec<_> = locks.iter().map_while(turn_of).collect();
        let pairs = locks.iter().zip(&turns);
        let wanted: Vec<_> =
            pairs.map(|(lock, turn)| (lock.caller.shard, lock.caller.wants(&lock.keys, turn.tokens()))).collect();
        let mut outcomes = self.attempt_all(&wanted, kind, locks[0].caller.until()).await;
        // What comes behind the first that was not granted is given back, or this caller would hold it while it waits.
        let kept = kept_of_batch(outcomes.iter().map(Result::is_ok));
        // Before the turns are passed on, so that the next caller's requests come after these releases.
        drop(outcomes.split_off(kept));
        // Its turn is kept. The attempt has entered no queue of a node: this caller does when it waits.
        let next = turns.split_off(kept).into_iter().next();
        (outcomes.into_iter().flatten().zip(turns).collect(), next)
    }

    /// Makes an attempt for each of several locks, all at once. Those of one shard have one place in its line.
    async fn attempt_all(
        &self,
        wanted: &[(&Shard, Wanted<'_>)],
        kind: AttemptKind,
        until: Instant,
    ) -> Vec<Result<Box<Grant>, FailedAttempt>> {
        let is_divided = wanted.windows(2).any(|pair| !std::ptr::eq(pair[0].0, pair[1].0));
        // What one shard granted is not renewed before all have answered: so nobody waits longer than for a reply in the line of another.
        let until = if is_divided { Instant::now() } else { until };
        let mut outcomes: Vec<_> = wanted.iter().map(|_| None).collect();
        let of_shards = self.shards.iter().filter_map(|shard| {
            let of_shard = wanted.iter().enumerate().filter(|(_, (of, _))| std::ptr::eq(*of, shard));
            let (places, wanted): (Vec<usize>, Vec<_>) = of_shard.map(|(place, (_, wanted))| (place, *wanted)).unzip();
            (!places.is_empty()).then_some(async move { (places, shard.attempt_all(&wanted, kind, until).await) })
        });
        for (places, of_shard) in join_all(of_shards).await {
            places.into_iter().zip(of_shard).for_each(|(place, outcome)| outcomes[place] = Some(outcome));
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Begins the lease of a lock. `max_hold` does not count before the set is complete.
    fn begin(&self, lock: &SetLock<'_>, taken: Taken) -> LockGuard {
        let SetLock { caller, resource, .. } = lock;
        let options = LockOptions { max_hold: MAX_HOLD, ..caller.options.clone() };
        self.begin_lease(taken, resource.clone(), options, caller.acquiring)
    }
}

impl SetLock<'_> {
    /// Shares what this process reads, if that is why the nodes refused: not every store has several readers of one lock.
    async fn share_if_held(&self, failed: &FailedAttempt) -> Option<ReadShare> {
        let is_held = self.caller.options.kind.is_read() && matches!(failed.failure, Failure::Contended { .. });
        if is_held { self.caller.share_reading(&self.keys).await } else { None }
    }
}

/// Shares the locks that outer scopes hold, when each has the validity that the caller asks for.
async fn share_all(outer: &[OuterLock<'_>]) -> Result<Vec<LockGuard>, LockError> {
    let mut guards = Vec::with_capacity(outer.len());
    for OuterLock { caller, lease } in outer {
        guards.push(caller.share(lease.clone()).await?);
    }
    Ok(guards)
}

/// The same, when all of them have that validity at once: while one is awaited, another one may end.
async fn share_together(outer: &[OuterLock<'_>]) -> Result<Vec<LockGuard>, LockError> {
    loop {
        let guards = share_all(outer).await?;
        outer.iter().try_for_each(|lock| lock.lease.check())?;
        let has_left = |lock: &OuterLock<'_>| lock.lease.remaining() >= lock.caller.options.min_validity;
        if outer.iter().all(has_left) {
            return Ok(guards);
        }
    }
}

/// Does work while the locks that are held are not lost; `None` if one is.
async fn unless_lost<T>(held: &[LockGuard], outer: &[Lease], work: impl Future<Output = T>) -> Option<T> {
    if held.is_empty() && outer.is_empty() {
        return Some(work.await);
    }
    tokio::select! {
        biased;
        // First: when both are ready, the work has been done under a lock that is lost.
        () = any_lost(held.iter().map(LockGuard::lease).chain(outer.iter().cloned()).collect()) => None,
        done = work => Some(done),
    }
}
