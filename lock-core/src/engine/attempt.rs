use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::attempt_record::AttemptRecord;
use super::patience::Patience;
use super::{AttemptPlace, Engine, FailedAttempt, Grant, NodeReply, QueuePositions, Round};
use crate::cluster::{Outbox, next_roster};
use crate::error::NodeError;
use crate::node::{LockKeys, Operation, RESERVATION_TTL};
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::{AcquireVote, Acquisition, Failure, Step, Terms};

/// How long the attempt of a caller that waits goes on for the last replies, if it was refused by a majority, and granted by nobody.
const MAX_REFUSAL_WAIT: Duration = Duration::from_millis(25);

/// What an attempt asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) keys: &'a LockKeys,
    pub(crate) options: &'a LockOptions,
    /// How many tokens to reserve.
    pub(crate) tokens: u32,
    /// When the caller gives up.
    pub(crate) until: Instant,
    pub(crate) acquiring: &'a Acquiring<'a>,
}

impl Engine {
    /// Makes one attempt to take a lock, with an owner id of its own.
    ///
    /// The validity counts from here on: the time in line for the `place` is not part of it.
    ///
    /// With `positions`, the caller waits: it enters the queue of every node that does not grant.
    ///
    /// If the members change meanwhile, so that nodes refuse to vote by the roster that the votes are counted by, the attempt is
    /// undone and made again by the new roster.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves a release behind on every node that may have granted, which also gives up the queue
    /// position on that node. The other positions stay the caller's.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        _place: &AttemptPlace<'_>,
        wanted: &Wanted<'_>,
        mut positions: Option<&mut QueuePositions>,
    ) -> Result<Box<Grant>, FailedAttempt> {
        // Over all rosters: members that change again and again must not keep a caller longer than nodes that hang.
        let mut overtaken_by = None;
        loop {
            let mut attempt = Attempt::begin(self, wanted, positions.as_deref_mut());
            attempt.send(None);
            let decided = attempt.decide(*overtaken_by.get_or_insert(attempt.sent() + attempt.timeout)).await;
            if let Some(outcome) = attempt.conclude(decided) {
                return outcome;
            }
        }
    }

    /// Makes one attempt for each of several locks, at once: the requests to a node are submitted together. No attempt takes a
    /// queue position.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt`](Self::attempt).
    pub(crate) async fn attempt_all(
        self: &Arc<Self>,
        place: &AttemptPlace<'_>,
        wanted: &[Wanted<'_>],
    ) -> Vec<Result<Box<Grant>, FailedAttempt>> {
        let mut outbox = Outbox::new();
        outbox.resize_with(self.cluster.size(), Vec::new);
        let mut attempts: Vec<_> = wanted.iter().map(|wanted| Attempt::begin(self, wanted, None)).collect();
        // All of them begin before anything is sent: one that is dropped halfway releases what the others may have been granted.
        attempts.iter_mut().for_each(|attempt| attempt.send(Some(&mut outbox)));
        for (member, requests) in self.cluster.members.iter().zip(outbox).filter(|(_, requests)| !requests.is_empty()) {
            member.node.submit_all(requests);
        }
        join_all(attempts.into_iter().zip(wanted).map(|(mut attempt, wanted)| async move {
            let decided = attempt.decide(attempt.sent() + attempt.timeout).await;
            match attempt.conclude(decided) {
                Some(outcome) => outcome,
                None => self.attempt(place, wanted, None).await,
            }
        }))
        .await
    }
}

/// An attempt that is in progress.
///
/// The fields are dropped in this order: the replies are given up before the grant in the record sends its release, so that a node
/// does not repeat an acquire that nobody waits for.
pub(super) struct Attempt<'a> {
    pub(super) acquires: Round,
    pub(super) record: AttemptRecord<'a>,
    pub(super) acquisition: Acquisition,
    /// Set when a node refused because of its roster: by which roster a majority has to vote for another attempt.
    pub(super) next_roster: Option<u64>,
    pub(super) engine: &'a Arc<Engine>,
    pub(super) wanted: &'a Wanted<'a>,
    /// How long the nodes have to reply.
    timeout: Duration,
    pub(super) patience: Patience<'a>,
}

impl<'a> Attempt<'a> {
    /// An attempt before its first request.
    fn begin(engine: &'a Arc<Engine>, wanted: &'a Wanted<'a>, positions: Option<&'a mut QueuePositions>) -> Self {
        let &Wanted { keys, options, tokens, acquiring, .. } = wanted;
        let (cluster, &LockOptions { ttl, min_validity, .. }) = (&engine.cluster, options);
        acquiring.attempt_began();
        // Before the first request: the validity counts from here, and whatever ends the attempt from now on releases.
        let record = AttemptRecord::new(engine, keys, options, positions);
        let timeout = engine.node_timeout(ttl);
        let sent = record.grant.sent;
        let acquires =
            Round::until(cluster, keys, cluster.deadline(sent, timeout)).time_from_write(timeout).timed(sent);
        // Fewer replies decide nothing, and waking the task for each of them costs processor time.
        acquires.await_majority_but(0);
        let acquisition = Acquisition::new(cluster.size(), Terms { ttl, min_validity, tokens });
        let patience = Patience::new(engine, wanted, sent);
        Self { acquires, record, acquisition, next_roster: None, engine, wanted, timeout, patience }
    }

    /// From when on its validity counts.
    pub(super) fn sent(&self) -> Instant {
        self.record.grant.sent
    }

    /// Sends the acquire to all nodes, and not to a majority: which nodes are slow shows only when they are. With an outbox, it is put there.
    fn send(&mut self, mut outbox: Option<&mut Outbox>) {
        let grant = &self.record.grant;
        let acquire = Operation::Acquire {
            owner: grant.owner(),
            ttl: grant.ttl(),
            // With it, nodes whose fences differ assign the same token, and there is nothing to confirm.
            hint: self.engine.cluster.clock_at(grant.sent),
            tokens: self.wanted.tokens,
            since: self.record.waits_since(),
            kind: self.wanted.options.kind,
        };
        for node in 0..self.engine.cluster.size() {
            self.acquires.send_when_joined(node, acquire, outbox.as_deref_mut());
        }
    }

    /// Awaits what the votes decide on an attempt that was sent. `None` if it failed because the roster changed, which a majority of the
    /// nodes has to show by `overtaken_by`.
    async fn decide(&mut self, overtaken_by: Instant) -> Option<Step> {
        let step = match self.gather().await {
            proposed @ Step::Confirm { .. } => Box::pin(self.confirm(proposed)).await,
            step => step,
        };
        if matches!(step, Step::Failed(Failure::Contended { .. })) && self.record.only_refused() {
            Box::pin(self.await_refusals()).await;
        }
        // Undone only when the new roster is known: before that, a node refuses the release, too.
        let is_overtaken = step == NO_QUORUM
            && self.next_roster.is_some()
            && Box::pin(timeout_at(overtaken_by, overtaken(self.engine, self.next_roster))).await.is_ok();
        (!is_overtaken).then_some(step)
    }

    /// Gives the nodes that have not replied as long again as the majority took. One that refuses, too, has nothing to undo, which would be
    /// a request more, and the caller has to wait in any case.
    async fn await_refusals(&mut self) {
        let until = (Instant::now() + self.sent().elapsed().min(MAX_REFUSAL_WAIT)).min(self.wanted.until);
        self.acquires.await_each();
        while self.record.only_refused()
            && let Ok(Some(reply)) = timeout_at(until, self.acquires.next_whenever()).await
        {
            self.replied(reply);
        }
    }

    /// `None` if the roster changed meanwhile: the attempt was undone, and is to be made again.
    fn conclude(self, decided: Option<Step>) -> Option<Result<Box<Grant>, FailedAttempt>> {
        // From then on, what other callers hear counts against an outage.
        let began = self.patience.waits_since;
        let Self { engine, wanted: &Wanted { options, .. }, .. } = self;
        let outcome = self.settle(decided.as_ref().unwrap_or(&NO_QUORUM));
        decided?;
        // Not of an attempt that is made again: a change of members is no outage.
        engine.note_attempt(&outcome, options.ttl, began);
        Some(outcome)
    }

    /// Counts the votes until they decide, or a token has to be confirmed. Also a grant ends this: the votes that are missing change nothing,
    /// and their nodes may hang.
    async fn gather(&mut self) -> Step {
        loop {
            let step = tokio::select! {
                biased;
                Some(reply) = self.acquires.next_or_late(&self.engine.background.closing, |deadline| {
                    self.patience.late_until(deadline)
                }) => self.count(reply),
                // The others may hang: there is no need to wait for them.
                () = overtaken(self.engine, self.next_roster), if self.next_roster.is_some() => NO_QUORUM,
                // Not reached: the last vote always decides.
                else => NO_QUORUM,
            };
            if step != Step::Wait {
                return step;
            }
        }
    }

    /// Hands the grant out, or undoes the attempt: dropping the grant sends the release.
    fn settle(mut self, decided: &Step) -> Result<Box<Grant>, FailedAttempt> {
        // Replies that arrived after the one that decided: they show where there is nothing to release.
        while let Some(reply) = self.acquires.take() {
            self.replied(reply);
        }
        self.wanted.acquiring.attempt_ended(&self.record.votes);
        self.record.not_sent(self.acquires.unsent());
        let Self { acquires, record, wanted, .. } = self;
        // Before the record, as when an attempt is dropped.
        drop(acquires);
        match decided {
            Step::Granted { token } => Ok(record.won(*token, wanted.tokens)),
            Step::Failed(failure) => Err(record.lost(*failure)),
            Step::Wait | Step::Confirm { .. } => Err(record.lost(Failure::NoQuorum)),
        }
    }

    /// Counts a reply to the acquire.
    pub(super) fn count(&mut self, reply: NodeReply) -> Step {
        let node = reply.node;
        let vote = self.replied(reply);
        let step = self.acquisition.acquire_vote(node, vote, self.sent().elapsed());
        if step == Step::Wait && matches!(vote, AcquireVote::Held { .. }) {
            self.await_less();
        }
        step
    }

    /// A node has refused a caller that waits. It may call it at any moment, and keeps the lock for it for a while; and a node votes once in an
    /// attempt. So the votes that are missing are not awaited for all of that time.
    fn await_less(&mut self) {
        if self.record.waits_since().is_some() {
            let least = self.engine.cluster.answers.reply_time().expected() * 2;
            let until = self.sent() + least.max(RESERVATION_TTL / 2);
            self.acquires.await_no_longer_than(until);
        }
    }

    fn replied(&mut self, reply: NodeReply) -> AcquireVote {
        self.notice_roster(reply.reply.as_ref().err());
        self.record.replied(reply)
    }

    /// Notices that a node has another roster than the one that the votes are counted by.
    pub(super) fn notice_roster(&mut self, error: Option<&NodeError>) {
        let present = self.acquires.roster();
        if let Some(next) = error.and_then(|error| next_roster(error, present))
            && (next > present || !self.engine.cluster.has_majority_by(present))
        {
            self.next_roster = self.next_roster.max(Some(next));
        }
    }
}

/// How an attempt without a majority ends.
pub(super) const NO_QUORUM: Step = Step::Failed(Failure::NoQuorum);

/// Waits until a majority votes by this roster, or a newer one. Boxed, because it is rare: every attempt has room for it.
pub(super) async fn overtaken(engine: &Engine, roster: Option<u64>) {
    Box::pin(engine.cluster.majority_votes_by(roster.unwrap_or_default())).await;
}
