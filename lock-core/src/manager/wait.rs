use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::acquire::Taken;
use super::caller::Caller;
use crate::engine::{AttemptKind, AttemptPlace, Engine, FailedAttempt, Grant};
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::ReadShare;
use crate::node::LockKeys;
use crate::quorum::{Failure, OUTAGE_GRACE};
use crate::waiting::{Handover, HandoverTerms, LocalHold, NotEntered, Turn};

/// The first and the longest pause of a caller after an attempt without a majority; its pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));
/// The longest pause while no caller has a majority: all of them pause for as long as that has been so.
const MAX_PAUSE: Duration = Duration::from_millis(250);

impl Caller<'_> {
    /// Waits in the local queue, and then makes one attempt after another, until one succeeds or the caller's time is over.
    pub(super) async fn enter_queue_and_try(&self, keys: &LockKeys) -> Result<Taken, LockError> {
        let terms = HandoverTerms::from(self.options);
        let mut has_waited = false;
        let turn = loop {
            let entered = self.shard.turns.enter(keys, self.options, self.until(), has_waited).await;
            match entered.map_err(|reason| self.not_entered(reason))? {
                Handover::Turn(turn) => break turn,
                // Checked again: this task may have slept since the lock was handed over to it.
                Handover::Lock(grant, local_hold) if terms.accept(&grant) => {
                    return Ok(Taken::Grant(grant, Some(local_hold)));
                }
                Handover::Lock(grant, LocalHold::Turn(turn)) => {
                    drop(grant);
                    break turn;
                }
                // Dropped, both go to the next caller that waits. This one enters the queue again, behind it.
                Handover::Lock(_grant, LocalHold::Slot(_slot)) => has_waited = true,
                Handover::NoQuorum(last) => return Err(self.not_entered(NotEntered::TimedOut(last))),
            }
        };
        self.try_with_turn(keys, turn).await
    }

    /// Makes one attempt after another while it has the turn, until one succeeds or the caller's time is over. A reader shares what this
    /// process reads.
    pub(super) async fn try_with_turn(&self, keys: &LockKeys, mut turn: Turn) -> Result<Taken, LockError> {
        let (options, until, engine) = (self.options, self.until(), &self.shard.engine);
        // Asked again, because others may have begun to read meanwhile. Nobody waits before the caller that has the turn, and in an outage it
        // is the only one of its queue that asks the nodes.
        if options.kind.is_read()
            && let Some(share) = Box::pin(ReadShare::join(self.leases, engine, keys, options.into())).await
        {
            return Ok(Taken::Share(share));
        }
        // Whom the nodes called has places of its own in the line: a lock that is kept for it must not pass while new callers are
        // served.
        let (mut kind, mut pause, mut had_extra) = (AttemptKind::New, BACKOFF.0, false);
        // What is rare is boxed: the future of an acquisition is as large as its largest branch.
        loop {
            self.check_open()?;
            let (place, attempted) = self.try_in_line(&mut turn, kind).await;
            let failed = match attempted {
                Ok(grant) => return Ok(self.keep_or_pass_turn(grant, turn)),
                Err(failed) => failed,
            };
            let free_in = match failed.failure {
                Failure::NoQuorum if Instant::now() < until && !engine.outage_lasts() => {
                    turn.had_no_quorum(&failed.votes);
                    // With the place: the manager makes fewer attempts while the nodes do not keep up.
                    Box::pin(self.ride_out(place, pause)).await;
                    pause = (pause * 2).min(BACKOFF.1);
                    continue;
                }
                Failure::NoQuorum => return Err(Box::pin(self.gives_up(&turn, failed)).await),
                // Another slot may be a lock.
                Failure::Contended { .. } if failed.is_not_a_lock() && !options.kind.has_slots() => {
                    return Err(self.failed(failed));
                }
                Failure::Contended { free_in } => free_in,
                // A majority granted, too late. Nobody else has the lock, so there is nothing to wait for.
                Failure::Expired => Some(Duration::ZERO),
            };
            // Not kept while the caller waits at the nodes: it would be one attempt less for the whole manager.
            drop(place);
            if Instant::now() >= until {
                // If the last attempt found a slot free, it has one extra attempt, for that.
                let free = self.shard.any_free(&failed.offers).filter(|_| !had_extra);
                let Some(slot) = free else { return Err(self.failed(failed)) };
                had_extra = true;
                turn.try_slot(slot);
                continue;
            }
            match Box::pin(turn.wait(&failed, free_in, until)).await {
                None => kind = AttemptKind::Woken,
                Some((grant, slot)) if HandoverTerms::from(options).accept(&grant) => {
                    return Ok(Taken::Grant(grant, Some(slot)));
                }
                Some(_) => {}
            }
        }
    }

    /// Waits in line, and makes an attempt. The place is kept with what came of it, because a caller that has to pause keeps it.
    async fn try_in_line(
        &self,
        turn: &mut Turn,
        kind: AttemptKind,
    ) -> (Option<AttemptPlace<'_>>, Result<Box<Grant>, FailedAttempt>) {
        let engine = &self.shard.engine;
        let place = match engine.enter_line(1, kind, self.until(), self.options.ttl).await {
            Ok(place) => place,
            Err(failed) => return (None, Err(failed)),
        };
        let (keys, tokens) = (turn.keys().clone(), turn.tokens());
        let attempted = engine.attempt(&place, &self.wants(&keys, tokens), Some(turn.begin_attempt())).await;
        (Some(place), attempted)
    }

    /// The answer to a caller that makes no other attempt after one without a majority. In an outage, those behind it have the same.
    async fn gives_up(&self, turn: &Turn, failed: FailedAttempt) -> LockError {
        turn.had_no_quorum(&failed.votes);
        let engine = &self.shard.engine;
        if engine.outage_lasts() && !engine.is_closed() {
            turn.report_no_quorum(self.options.ttl);
        }
        self.answer(failed).await
    }

    /// Pauses before another attempt after one without a majority, and waits until a majority votes: not beyond the caller's time,
    /// and not when the quorum has been lost for a second.
    async fn ride_out(&self, _place: Option<AttemptPlace<'_>>, pause: Duration) {
        let Engine { cluster, background, .. } = &*self.shard.engine;
        let lost_for = cluster.answers.lost_for();
        // As long as the outage has lasted, so that the attempts of an outage are few, however many callers there are.
        let pause = cluster.random.jitter(pause.max(lost_for.min(MAX_PAUSE)));
        let answered_at = Instant::now() + OUTAGE_GRACE.saturating_sub(lost_for);
        let quorum_is_back = async {
            sleep(pause).await;
            cluster.quorum_is_back().await;
        };
        tokio::select! {
            biased;
            () = background.closing.cancelled() => {}
            _ = timeout_at(self.until().min(answered_at), quorum_is_back) => {}
        }
    }

    /// Who has a lock keeps its turn, to hand it on with the lock. Who has a slot passes the turn on at once: the next caller may have
    /// another slot.
    fn keep_or_pass_turn(&self, mut grant: Box<Grant>, turn: Turn) -> Taken {
        let local_hold = match self.options.kind {
            Kind::Write | Kind::Read => Some(LocalHold::Turn(turn)),
            Kind::Permit { .. } => {
                turn.slot_taken(&mut grant);
                self.shard.turns.hold_slot(grant.keys())
            }
        };
        Taken::Grant(grant, local_hold)
    }
}
