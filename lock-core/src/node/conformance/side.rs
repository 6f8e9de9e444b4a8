use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::timeout;

use super::outcome::{Failure, Outcome, Times};
use super::step::{Epochs, LOCKS, RecordChange, Step};
use crate::node::{
    Ballot, Division, Epoch, Evict, Holder, Inspection, Keyspace, LockKeys, LockNode, Look, MemberId, NodeError,
    NodeFuture, NodeRecord, Operation, OwnerId, RESERVATION_TTL, RecordWrite, Reply, ReplySender, Request, Roster,
    Seat, SetId, WaiterId, Wakeup, Wakeups,
};
use crate::random::Random;

/// How long a node may take to listen for wake-ups. One that has none never does.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A member that is named in records, besides the node itself.
const OTHER: MemberId = MemberId { random: 7, micros: 7 };

/// An epoch that no record has.
const NO_EPOCH: Epoch = Epoch::from_bits(u128::MAX);

/// One of the two that are compared: the node, or the rules.
pub(super) struct Side {
    node: Box<dyn LockNode>,
    keys: Keys,
    run_id: String,
    times: Times,
    /// What each process hears, as far as any listens.
    ears: Vec<Wakeups>,
    /// The present epoch; `None` while the record has none.
    epoch: Option<Epoch>,
    /// The epoch of the next record.
    next_epoch: u128,
}

/// The keys of a sequence, in the order of [`LOCKS`].
pub(super) type Keys = [LockKeys; LOCKS.len()];

/// Keys that nothing has used.
pub(super) fn fresh_keys() -> Keys {
    let keyspace = Arc::new(Keyspace::new(&format!("conformance-{:016x}:", Random::from_system().number())));
    let fence = |resource: &str| LockKeys::new(&keyspace, resource).fence();
    let (first, third) = (fence("one"), (0_u64..).map(|suffix| format!("three-{suffix}")));
    let third = third.into_iter().find(|third| fence(third) == first).unwrap_or_default();
    let [one, two, third] = ["one", "two", &third].map(|resource| LockKeys::new(&keyspace, resource));
    let [first_slot, second_slot] = [0, 1].map(|slot| LockKeys::of_slot(&keyspace, "slots", slot));
    [one, two, third, first_slot, second_slot]
}

impl Side {
    /// A side, of which the first processes listen for wake-ups.
    pub(super) async fn new(
        node: Box<dyn LockNode>,
        keys: &Keys,
        listening: u64,
        times: Times,
    ) -> Result<Self, NodeError> {
        node.set_max_ttl(times.ttl.saturating_mul(3));
        let run_id = node.inspect(keys[0].keyspace()).await?.run_id;
        let mut ears = Vec::new();
        for waiter in 1..=listening {
            let listens = node.wakeups(keys[0].keyspace(), WaiterId::from_bits(waiter.into()));
            ears.push(timeout(LISTEN_TIMEOUT, listens).await.unwrap_or(Err(NodeError::TimedOut))?);
        }
        Ok(Self { node, keys: keys.clone(), run_id, times, ears, epoch: None, next_epoch: 0 })
    }

    /// A side with another node, if that is one of the same store: it finds the same record.
    pub(super) async fn beside(&self, node: Box<dyn LockNode>) -> Result<Option<Self>, NodeError> {
        let other = Self::new(node, &self.keys, 0, self.times).await?;
        let is_same = other.run_id == self.run_id && other.present().await?.0 == self.present().await?.0;
        Ok(is_same.then_some(Self { epoch: self.epoch, ..other }))
    }

    /// Whether the record has an epoch.
    pub(super) fn votes(&self) -> bool {
        self.epoch.is_some()
    }

    /// The present epoch, or one that there is not.
    fn present_epoch(&self) -> Epoch {
        self.epoch.unwrap_or(NO_EPOCH)
    }

    pub(super) async fn carry_out(&mut self, step: &Step) -> Outcome {
        let present = self.present_epoch();
        let of = |epochs: Epochs| if epochs == Epochs::Present { present } else { NO_EPOCH };
        match step {
            Step::Requests { epoch, waiter, polls, operations } => {
                let (epoch, waiter) = (of(*epoch), WaiterId::from_bits((*waiter).into()));
                let requests = operations.iter().map(|(lock, operation)| {
                    let keys = self.keys[*lock].clone();
                    Request { keys, epoch, waiter, polls: *polls, operation: *operation }
                });
                Outcome::Replied(self.submit(requests.collect()).await)
            }
            Step::Look(epoch) => {
                let look = Look { keys: self.keys.to_vec(), epoch: (*epoch != Epochs::Any).then(|| of(*epoch)) };
                let states = self.node.look(look).await.map_err(Failure);
                let times = self.times;
                Outcome::Looked(states.map(|states| states.into_iter().map(|state| times.state(state)).collect()))
            }
            Step::Evict { lock, epoch, owners, token } => self.evict(*lock, of(*epoch), owners, *token).await,
            Step::Write(change) => Outcome::Written(self.write(*change).await.map_err(Failure)),
            Step::ReadFences => {
                let reading = self.node.read_fences(self.keys[0].keyspace()).await.map_err(Failure);
                Outcome::Fences(reading.map(|reading| Some((reading?.member.random, reading?.highest))))
            }
            Step::Inspect => Outcome::Inspected(self.inspect().await.map_err(Failure)),
        }
    }

    /// Submits a request of a caller that does not wait, in the present epoch. The reply need not be awaited.
    pub(super) fn submit_one(&self, lock: usize, operation: Operation) -> NodeFuture<Result<Reply, NodeError>> {
        let (reply_to, reply) = ReplySender::channel();
        let (keys, epoch, waiter) = (self.keys[lock].clone(), self.present_epoch(), WaiterId::from_bits(1));
        self.node.submit(Request { keys, epoch, waiter, polls: false, operation }, reply_to);
        reply
    }

    /// Evicts owners from a lock in the present epoch.
    pub(super) async fn evict_now(&self, lock: usize, owners: &[OwnerId], token: u64) -> Outcome {
        self.evict(lock, self.present_epoch(), owners, token).await
    }

    async fn evict(&self, lock: usize, epoch: Epoch, owners: &[OwnerId], token: u64) -> Outcome {
        let holders = owners.iter().copied().map(Holder::Owner).collect();
        let (keys, barred_for) = (self.keys[lock].clone(), self.times.ttl.saturating_mul(3));
        Outcome::Evicted(self.node.evict(Evict { keys, epoch, holders, token, barred_for }).await.map_err(Failure))
    }

    async fn submit(&self, requests: Vec<Request>) -> Vec<Result<Reply, Failure>> {
        let submitted = requests.into_iter().map(|request| {
            let (reply_to, reply) = ReplySender::channel();
            ((request, reply_to), reply)
        });
        let (requests, replies): (Vec<_>, Vec<_>) = submitted.unzip();
        if requests.len() > 1 {
            self.node.submit_all(requests);
        } else {
            requests.into_iter().for_each(|(request, reply_to)| self.node.submit(request, reply_to));
        }
        let replies = join_all(replies).await.into_iter();
        replies.map(|reply| reply.map(|reply| self.times.reply(reply)).map_err(Failure)).collect()
    }

    async fn write(&mut self, change: RecordChange) -> Result<Option<(NodeRecord, bool)>, NodeError> {
        let (present, _) = self.present().await?;
        let found = present.as_ref().map(|record| (record.member, record.version));
        let member = present.as_ref().map_or(MemberId { random: 1, micros: 1 }, |record| record.member);
        let roster = Roster {
            set: SetId(5),
            generation: 3,
            max_ttl: Duration::from_secs(60),
            quarantine_ttl: self.times.ttl,
            formed_over: vec![SetId(3), SetId(4)],
            name: "a set".into(),
            division: Division::default(),
            seats: vec![Some(Seat { member: OTHER, address: "a server".into() }), None],
        };
        let ballot = Ballot { round: 2, proposer: 7 };
        let record = NodeRecord {
            run_id: self.run_id.clone(),
            member,
            version: 0,
            was: change.has_roster.then_some(OTHER),
            epoch: change.votes.then(|| Epoch::from_bits(self.next_epoch)),
            roster: change.has_roster.then(|| roster.clone()),
            previous: vec![OTHER],
            promised: change.begins_quarantine.then_some(ballot),
            accepted: change.begins_quarantine.then_some((ballot, roster)),
            quarantines: Vec::new(),
        };
        let write = RecordWrite {
            expected: if change.is_stale { Some((MemberId { random: 9, micros: 9 }, 9)) } else { found },
            record,
            new_member: change.new_member,
            begin: if change.begins_quarantine { vec![(OTHER, self.times.ttl)] } else { Vec::new() },
            floor: change.floor,
        };
        let Some(written) = self.write_record(write).await? else { return Ok(None) };
        (self.epoch, self.next_epoch) = (written.epoch, self.next_epoch + 1);
        let (stored, clock) = self.present().await?;
        let is_stored = stored.as_ref() == Some(&written);
        Ok(Some((self.times.record(written, clock), is_stored)))
    }

    /// The present record with another epoch, in the place of the present one.
    pub(super) async fn another_epoch(&self, number: u128) -> Result<RecordWrite, NodeError> {
        let (present, _) = self.present().await?;
        let record = present.ok_or_else(|| NodeError::Protocol { reply: "no record".into() })?;
        let expected = Some((record.member, record.version));
        let (epoch, run_id) = (Some(Epoch::from_bits(1000 + number)), self.run_id.clone());
        let record = NodeRecord { epoch, run_id, ..record };
        Ok(RecordWrite { expected, record, new_member: false, begin: Vec::new(), floor: None })
    }

    pub(super) async fn write_record(&self, write: RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        self.node.write_record(self.keys[0].keyspace(), write).await
    }

    /// What the node's clock shows.
    pub(super) async fn clock(&self) -> Result<Duration, NodeError> {
        self.present().await.map(|(_, micros)| Duration::from_micros(micros))
    }

    pub(super) async fn inspect(&self) -> Result<Option<NodeRecord>, NodeError> {
        let (record, clock) = self.present().await?;
        Ok(record.map(|record| self.times.record(record, clock)))
    }

    /// The record at present, and when it was read.
    async fn present(&self) -> Result<(Option<NodeRecord>, u64), NodeError> {
        let Inspection { run_id, record, clock_micros, .. } = self.node.inspect(self.keys[0].keyspace()).await?;
        if run_id != self.run_id {
            let reply = format!("the run id was {:?} and is {run_id:?}, so the node may have forgotten", self.run_id);
            return Err(NodeError::Protocol { reply });
        }
        Ok((record.get().cloned(), clock_micros))
    }

    /// The wake-ups of each process, lock by lock: requests about different locks that are submitted together may take effect in
    /// another order. Those that are expected and missing may still be on their way.
    pub(super) async fn heard(&mut self, expected: &[Vec<Wakeup>]) -> Vec<Vec<Wakeup>> {
        let mut heard: Vec<Vec<Wakeup>> = Vec::new();
        for (number, ear) in self.ears.iter_mut().enumerate() {
            let (mut wakeups, expected) = (Vec::new(), expected.get(number).map_or(0, Vec::len));
            let patience = |heard: usize| if heard < expected { RESERVATION_TTL } else { Duration::ZERO };
            while let Ok(Some(wakeup)) = timeout(patience(wakeups.len()), ear.next()).await {
                wakeups.push(wakeup);
            }
            wakeups.sort_by(|one: &Wakeup, other| one.lock_key.cmp(&other.lock_key));
            heard.push(wakeups);
        }
        heard
    }
}
