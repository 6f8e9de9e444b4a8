use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::node::{
    Division, Epoch, FenceReading, FoundRecord, Inspection, MemberId, NodeRecord, Quarantine, Roster, SetId,
};
use lock_core::quorum::{Change, Membership, MembershipConfig, MembershipStep, Standing, majority};

use super::node::max_ttl;
use super::setting::{MembershipMutant, MembershipSetting};
use super::shared::{Shared, hash_of};

/// A client: the shipped [`Membership`], what it wants to do next, and what it was told.
#[derive(Clone, Debug)]
pub struct Mind {
    client: usize,
    /// What decides.
    pub membership: Membership,
    /// What is to be done.
    pub steps: Vec<MembershipStep>,
    /// The records that it knows, by place in its list.
    pub records: Vec<Option<NodeRecord>>,
    /// The newest roster that it knows.
    pub roster: Option<Shared<Roster>>,
    /// The fences that it saw with them, for a mutant.
    pub fences: Vec<u8>,
}

impl Hash for Mind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.client, &self.membership, &self.fences).hash(state);
    }
}

/// What a client learns.
#[derive(Clone, Debug, Hash)]
pub(super) enum Event {
    /// What an inspection found, and the highest fence at that time.
    Seen(usize, Inspection, u8),
    /// What it wrote.
    Written(usize, NodeRecord),
    /// A fence that was read under a roster.
    Fence(usize, (SetId, u64), FenceReading),
    /// What its user asks for.
    Ask(Change),
}

/// What minds become: they are compared by hash, and many states share them.
#[derive(Debug, Default)]
pub(super) struct Memo(Vec<Mutex<Shard>>);

/// The mind after an event, by the hashes of the mind before and of the event.
type Shard = HashMap<(u64, u64), Shared<Mind>>;

impl Memo {
    pub(super) fn new() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }

    /// What a client knows after an event, which is made only if it is not known. `event` is a hash of it.
    pub(super) fn after(
        &self,
        mind: &Shared<Mind>,
        event: u64,
        make: impl FnOnce() -> Event,
        now: u8,
        setting: &MembershipSetting,
    ) -> Shared<Mind> {
        let key = (mind.hash(), hash_of(&(event, now)));
        let shard = &self.0[usize::try_from((key.0 ^ key.1) % 64).unwrap()];
        if let Some(known) = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let mut after = (**mind).clone();
        after.learn(make(), now, setting);
        after.think(setting);
        after.roster = after.membership.roster().map(|roster| Shared::new(roster.clone()));
        let after = Shared::new(after);
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(key, after.clone());
        after
    }
}

impl Mind {
    pub(super) fn new(client: usize, setting: &MembershipSetting) -> Self {
        Self::with_max_ttl(client, setting.asked_ttl(), setting)
    }

    /// A client like the first, before any `max_ttl` is lowered.
    pub(super) fn founder(setting: &MembershipSetting) -> Self {
        Self::with_max_ttl(0, setting.ttl(), setting)
    }

    fn with_max_ttl(client: usize, ticks: u8, setting: &MembershipSetting) -> Self {
        let list = setting.lists[client];
        Self {
            client,
            membership: Self::blank(client, ticks, setting),
            steps: Vec::new(),
            records: vec![None; list.len()],
            roster: None,
            fences: vec![0; list.len()],
        }
    }

    fn blank(client: usize, ticks: u8, setting: &MembershipSetting) -> Membership {
        let config = MembershipConfig {
            names: setting.lists[client].iter().map(|node| setting.name_of(*node)).collect(),
            max_ttl: max_ttl(ticks),
            set_name: String::new(),
            division: Division::default(),
            form_with_missing: setting.successor == Some(client),
            passive: false,
            assume_durable: setting.is(MembershipMutant::ExemptionForDurable),
        };
        Membership::new(config, client as u64)
    }

    /// The epoch in which each node of the list votes, if this client counts its vote, and the seat that it votes for.
    pub(super) fn votes(&self, now: u8, setting: &MembershipSetting) -> Vec<Option<(Epoch, Option<usize>)>> {
        let vote = |node: usize| {
            let record = self.records[node].as_ref()?;
            match self.membership.standing(node, seconds(now)) {
                Standing::Admitted { epoch, seat } => Some((epoch, Some(seat))),
                Standing::Quarantined(_) if setting.is(MembershipMutant::LeftSetNotWaitedFor) => {
                    record.epoch.map(|epoch| (epoch, None))
                }
                _ if setting.is(MembershipMutant::VotesNotBoundToRoster) && record.has_seat() => {
                    record.epoch.map(|epoch| (epoch, None))
                }
                _ if setting.is(MembershipMutant::NoOwnSeatNeeded)
                    && record.roster.as_ref() == self.membership.roster() =>
                {
                    record.epoch.map(|epoch| (epoch, None))
                }
                _ => None,
            }
        };
        (0..self.records.len()).map(vote).collect()
    }

    /// Whether its next step is a vote for the next roster.
    pub(super) fn is_choosing(&self) -> bool {
        let Some(MembershipStep::Write { node, write }) = self.steps.first() else { return false };
        let of = |record: &NodeRecord| (record.promised, record.accepted.is_some());
        let before = self.records[*node].as_ref();
        write.record.promised.is_some()
            && before.is_some_and(|before| of(before) != of(&write.record) || before.accepted != write.record.accepted)
    }

    fn learn(&mut self, event: Event, now: u8, setting: &MembershipSetting) {
        let now = seconds(now);
        match event {
            Event::Seen(node, mut seen, fence) => {
                seen.log_position.take_if(|_| setting.is(MembershipMutant::LogPositionIgnored));
                if let FoundRecord::Record(record) = &mut seen.record {
                    self.amend(record, setting);
                }
                self.records[node] = seen.record.get().cloned();
                if setting.is(MembershipMutant::FloorReadBeforeInstall) {
                    let installed = seen.record.get().and_then(|record| record.roster.as_ref());
                    if self.membership.roster().is_none_or(|roster| installed != Some(roster)) {
                        self.fences[node] = fence;
                    }
                }
                self.membership.observe(node, Some(seen), now);
            }
            Event::Written(node, mut record) => {
                self.amend(&mut record, setting);
                self.records[node] = Some(record.clone());
                self.membership.written(node, record.clone(), now);
                self.jump_to_conclusions(node, &record, now, setting);
            }
            Event::Fence(node, roster, mut reading) => {
                if setting.is(MembershipMutant::FloorReadBeforeInstall) {
                    reading.highest = self.fences[node].into();
                }
                self.membership.fence_read(node, roster, reading);
                if setting.is(MembershipMutant::FloorFromMinority) {
                    for (other, record) in self.records.iter().enumerate().filter(|(other, _)| *other != node) {
                        if let Some(record) = record {
                            let reading = FenceReading { member: record.member, highest: 0 };
                            self.membership.fence_read(other, roster, reading);
                        }
                    }
                }
            }
            Event::Ask(change) => self.membership.request(change),
        }
        let knew = setting.is(MembershipMutant::FirstStartByOneThatKnew) && self.membership.roster().is_some();
        if knew && self.records.iter().all(|record| record.as_ref().is_none_or(|record| record.roster.is_none())) {
            self.membership = Self::blank(self.client, setting.asked_ttl(), setting);
        }
    }

    /// Reads more into a record than there is, or less.
    fn amend(&self, record: &mut NodeRecord, setting: &MembershipSetting) {
        if setting.is(MembershipMutant::SuccessorIgnored)
            && let Some(roster) = &mut record.roster
            && self.membership.roster().is_some_and(|own| own.set != roster.set)
        {
            roster.formed_over.clear();
            let own = setting.name_of(setting.lists[self.client][0]);
            roster.seats.iter_mut().flatten().for_each(|seat| seat.address.clone_from(&own));
        }
        if setting.is(MembershipMutant::AbsenceTakenForOver) {
            let joins = |record: &NodeRecord| record.epoch.is_none() && record.quarantine_of(record.member).is_some();
            for joining in self.records.iter().flatten().filter(|other| joins(other)) {
                if record.quarantine_of(joining.member).is_none() && record.roster == joining.roster {
                    record.quarantines.push(Quarantine { member: joining.member, ends: 0 });
                }
            }
        }
    }

    /// Takes the vote of too few nodes for that of all.
    fn jump_to_conclusions(&mut self, node: usize, record: &NodeRecord, now: Duration, setting: &MembershipSetting) {
        let same_promise = |other: &NodeRecord| other.promised == record.promised && other.accepted == record.accepted;
        let agreed = self.records.iter().flatten().filter(|other| same_promise(other)).count();
        let accepted = record.accepted.as_ref().is_some_and(|(ballot, _)| record.promised == Some(*ballot));
        let enough = match setting.mutant {
            Some(MembershipMutant::ChosenByMinority) => accepted && self.membership.roster().is_some(),
            Some(MembershipMutant::FormedByMajority) => {
                record.promised.is_some() && record.roster.is_none() && agreed >= majority(self.records.len())
            }
            _ => false,
        };
        for (other, known) in self.records.iter().enumerate().filter(|(other, _)| enough && *other != node) {
            if let Some(known) = known.as_ref().filter(|known| known.roster == record.roster) {
                let (promised, accepted) = (record.promised, record.accepted.clone());
                self.membership.written(other, NodeRecord { promised, accepted, ..known.clone() }, now);
            }
        }
    }

    /// Finds out what is to be done. Random numbers are the same whenever the client knows the same ids.
    fn think(&mut self, setting: &MembershipSetting) {
        let ids: Vec<Option<MemberId>> = self.records.iter().map(|known| Some(known.as_ref()?.member)).collect();
        let number = hash_of(&(self.client, ids)) | 1;
        // Pauses between proposals are over before anything else happens.
        for now in [Duration::ZERO, Duration::from_secs(1)] {
            self.steps = self.membership.steps(now, 0, &mut || number);
            if !self.steps.is_empty() {
                break;
            }
        }
        let mut steps = std::mem::take(&mut self.steps);
        steps.iter_mut().for_each(|step| self.client_mutants(step, setting));
        self.steps = steps;
        if setting.is(MembershipMutant::FloorFromOthersOfNext) {
            let roster = self.membership.roster().cloned();
            let records = &self.records;
            self.steps.retain(|step| match step {
                MembershipStep::ReadFence { node, .. } => {
                    let member = records[*node].as_ref().map(|record| record.member);
                    roster.as_ref().zip(member).is_some_and(|(roster, member)| roster.contains(member))
                }
                MembershipStep::Write { .. } => true,
            });
        }
    }

    fn client_mutants(&self, step: &mut MembershipStep, setting: &MembershipSetting) {
        let MembershipStep::Write { node, write } = step else { return };
        if setting.is(MembershipMutant::IdDrawnByProposer) && write.new_member {
            write.record.member.random = hash_of(&(write.record.member.random, &*node));
        }
        if setting.is(MembershipMutant::QuarantineLoweredWithMaxTtl)
            && let Some((_, roster)) = &mut write.record.accepted
        {
            roster.quarantine_ttl = roster.max_ttl;
        }
        if setting.is(MembershipMutant::AddressAsIdentity) && write.new_member {
            let name = setting.name_of(setting.lists[self.client][*node]);
            let roster = self.membership.roster();
            let seat = roster.and_then(|roster| roster.seats.iter().flatten().find(|seat| seat.address == name));
            if let Some(seat) = seat {
                (write.record.member, write.record.was, write.new_member) = (seat.member, None, false);
            }
        }
    }
}

fn seconds(ticks: u8) -> Duration {
    Duration::from_secs(ticks.into())
}
