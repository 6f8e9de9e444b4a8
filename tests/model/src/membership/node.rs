use std::time::Duration;

use lock_core::node::{FenceReading, FoundRecord, Inspection, MemberId, NodeRecord, Quarantine, RecordWrite, Roster};
use lock_core::quorum::MembershipStep;
use lock_core::{node::Epoch, quorum};

use super::setting::{MembershipMutant, MembershipSetting};
use super::shared::Shared;

/// A node: its record, and the fence and key of the one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberNode {
    /// Its record.
    pub record: Option<Shared<NodeRecord>>,
    /// The roster in it.
    pub roster: Option<Shared<Roster>>,
    /// How many times it restarted.
    pub run: u8,
    /// How far its log is written: 0 if it has none.
    pub log: u64,
    /// How many ids were written to it.
    pub ids: u8,
    /// The fence.
    pub fence: u8,
    /// The attempt that has the key, and the tick at which the key expires.
    pub key: Option<(usize, u8)>,
    /// Whether its clock is wrong.
    pub jumped: bool,
}

/// How far a wrong clock is ahead.
const JUMP: u64 = 1_000_000_000;

/// What tells two members or two installs apart. The shipped code draws random numbers for that.
pub(super) fn epoch_of(record: &NodeRecord, run: u8) -> Epoch {
    let (set, generation) = record.roster.as_ref().map_or((0, 0), |roster| (roster.set.0, roster.generation));
    let parts = [record.member.micros, record.member.random, set, generation, u64::from(run)];
    Epoch::from_bits(u128::from(super::shared::hash_of(&parts)))
}

/// Whether an epoch was drawn and not yet written.
fn is_drawn(epoch: Epoch) -> bool {
    let text = epoch.to_string();
    text[..16] == text[16..]
}

impl MemberNode {
    /// The node's clock, as far as it matters for the quarantines that it observes.
    pub(super) fn clock(&self, now: u8) -> u64 {
        u64::from(now) * 1_000_000 + if self.jumped { JUMP } else { 0 }
    }

    /// The clock that a client reads. Where nothing depends on it, it is 0.
    pub(super) fn clock_read(&self, now: u8) -> u64 {
        let last = self.record.iter().flat_map(|record| &record.quarantines).map(|quarantine| quarantine.ends).max();
        last.map_or(0, |last| self.clock(now).min(last))
    }

    /// What an inspection finds.
    pub(super) fn inspection(&self, node: usize, now: u8) -> Inspection {
        Inspection {
            run_id: format!("{node}-{}", self.run),
            log_position: (self.log > 0).then_some(self.log),
            durable: true,
            clock_micros: self.clock_read(now),
            record: self.record.as_ref().map_or(FoundRecord::None, |record| FoundRecord::Record((**record).clone())),
        }
    }

    /// What a write has to expect.
    pub(super) fn expected(&self) -> Option<(MemberId, u64)> {
        self.record.as_ref().map(|record| (record.member, record.version))
    }

    /// Executes a write, if the record is the expected one.
    pub(super) fn write(&mut self, node: usize, write: &RecordWrite, now: u8, setting: &MembershipSetting) -> bool {
        let present = self.expected();
        let forgets_promise = setting.is(MembershipMutant::PromiseForgotten)
            && is_accept(write)
            && self.record.as_ref().is_some_and(|record| {
                record.member == write.record.member
                    && record.roster == write.record.roster
                    && record.epoch == write.record.epoch
            });
        if present != write.expected && !forgets_promise {
            return false;
        }
        let mut record = write.record.clone();
        record.version = present.map_or(1, |(_, version)| version + 1);
        if write.new_member && !setting.is(MembershipMutant::IdDrawnByProposer) {
            record.member = MemberId { random: 0, micros: (node as u64 + 1) * 10 + u64::from(self.ids) };
        }
        self.ids += u8::from(write.new_member);
        if record.epoch.is_some_and(is_drawn) {
            record.epoch = Some(epoch_of(&record, self.run));
        }
        for (member, length) in &write.begin {
            let own = *member == record.member;
            let none = !setting.is_timed()
                || setting.is(MembershipMutant::NoQuarantine)
                || setting.is(MembershipMutant::OneClockEndsQuarantine) && !own;
            let length = if none { 0 } else { u64::try_from(length.as_micros()).unwrap() };
            record.quarantines.push(Quarantine { member: *member, ends: self.clock(now) + length });
        }
        if let Some(floor) = write.floor.filter(|_| !setting.is(MembershipMutant::FloorNotApplied)) {
            self.fence = self.fence.max(u8::try_from(floor).unwrap());
        }
        self.roster = record.roster.clone().map(Shared::new);
        self.record = Some(Shared::new(record));
        true
    }

    pub(super) fn fences(&self) -> Option<FenceReading> {
        let record = self.record.as_ref()?;
        Some(FenceReading { member: record.member, highest: self.fence.into() })
    }

    /// The record, if the node did not restart since.
    pub(super) fn live_record(&self, node: usize) -> Option<&NodeRecord> {
        self.record.as_deref().filter(|record| is_run(&record.run_id, node, self.run))
    }
}

/// Whether this is the second half of a proposal.
pub(super) fn is_accept(write: &RecordWrite) -> bool {
    write.begin.is_empty()
        && write.record.accepted.as_ref().is_some_and(|(ballot, _)| write.record.promised == Some(*ballot))
}

pub(super) fn node_of(step: &MembershipStep) -> usize {
    match step {
        MembershipStep::Write { node, .. } | MembershipStep::ReadFence { node, .. } => *node,
    }
}

/// `max_ttl` for a lease of this many ticks, so that with the drift a quarantine takes as many.
pub(super) fn max_ttl(ticks: u8) -> Duration {
    let ttl = Duration::from_millis(900) * ticks.into();
    debug_assert!(quorum::quarantine_length(ttl) <= Duration::from_secs(ticks.into()));
    ttl
}

/// The time to live of leases that are granted under a roster, in ticks.
pub(super) fn ticks(roster: &Roster) -> u8 {
    u8::try_from(roster.max_ttl.as_millis() / 900).unwrap()
}

/// Whether this is the run id of a node.
fn is_run(run_id: &str, node: usize, run: u8) -> bool {
    let parts = run_id.split_once('-').and_then(|(of, number)| Some((of.parse().ok()?, number.parse().ok()?)));
    parts == Some((node, run))
}
