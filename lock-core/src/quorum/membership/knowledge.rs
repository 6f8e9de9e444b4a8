use std::time::Duration;

use super::Change;
use super::positions::LogPositions;
use super::proposal::Proposals;
use super::upkeep::quarantine_length;
use crate::node::{Division, FenceReading, FoundRecord, Inspection, MemberId, NodeRecord, RecordWrite, Roster, SetId};
use crate::quorum::majority;

/// What a client is configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MembershipConfig {
    /// The names of the nodes in its list, which are the addresses in the rosters that it proposes.
    pub names: Vec<String>,
    /// The longest time to live that it asks for.
    pub max_ttl: Duration,
    /// The name of the set.
    pub set_name: String,
    /// Into what the locks are divided, of which the set has one part.
    pub division: Division,
    /// Whether it forms a set although nodes are missing.
    pub form_with_missing: bool,
    /// Whether a restarted node that has its record is trusted to have all its data, if it says that it is durable.
    pub assume_durable: bool,
    /// Whether it writes no records, and so forms no set and changes none.
    pub passive: bool,
}

#[cfg(test)]
impl MembershipConfig {
    /// For unit tests: the nodes of these names, and otherwise the defaults.
    pub(crate) fn of(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), max_ttl: Duration::from_secs(60), ..Self::default() }
    }
}

/// What one client knows of the nodes in its list, and decides from that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    pub(super) config: MembershipConfig,
    pub(super) nodes: Vec<Known>,
    /// The newest roster that it knows, and the members of the one before.
    pub(super) roster: Option<Roster>,
    pub(super) previous: Vec<MemberId>,
    /// The masters of a set that was formed over this client's, if it saw one of them: its own has ended.
    pub(super) successor: Option<String>,
    /// Whether this client was there when the roster was chosen.
    pub(super) chose: bool,
    /// It does not count votes before this time: locks may be held of a set that it left.
    pub(super) hold: Duration,
    positions: LogPositions,
    pub(super) proposals: Proposals,
    /// A change that its user asks for.
    pub(super) request: Option<Change>,
    /// What another shard has recorded, beside what this client counts there, if that is something else.
    pub(super) elsewhere: Option<(Division, Division)>,
}

/// What a client knows of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// What it last read; `None` if the node does not answer.
    pub(super) seen: Option<Inspection>,
    /// Whether it tried to read it.
    pub(super) was_tried: bool,
    /// The id under which it last saw the node as a member.
    pub(super) member: Option<MemberId>,
    /// Whether a step on the node failed a moment ago. Others do not wait for it.
    pub(super) is_paused: bool,
    /// The highest fence of the node, read after it installed the newest roster.
    pub(super) fence: Option<FenceReading>,
}

impl Known {
    /// The record of the node, whatever it is to this client.
    fn record(&self) -> Option<&NodeRecord> {
        self.seen.as_ref()?.record.get()
    }
}

/// Something that a client does to a node.
#[allow(clippy::large_enum_variant, reason = "there are a few of them at a time")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes its record.
    Write {
        /// The node.
        node: usize,
        /// What is written.
        write: RecordWrite,
    },
    /// Reads its highest fence, for a floor under this roster.
    ReadFence {
        /// The node.
        node: usize,
        /// The roster that the node has installed.
        roster: (SetId, u64),
    },
}

impl Membership {
    /// A client that knows nothing yet. No two clients have the same `proposer`.
    pub fn new(config: MembershipConfig, proposer: u64) -> Self {
        Self {
            nodes: vec![Known::default(); config.names.len()],
            config,
            roster: None,
            previous: Vec::new(),
            successor: None,
            chose: false,
            hold: Duration::ZERO,
            positions: LogPositions::default(),
            proposals: Proposals::new(proposer),
            request: None,
            elsewhere: None,
        }
    }

    /// The newest roster that the client knows.
    pub fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    /// Whether there is a set, whose locks are divided into as many shards as this client's.
    pub(crate) fn is_of_same_shards(&self) -> bool {
        self.roster.as_ref().is_some_and(|roster| roster.division == self.config.division)
    }

    /// Whether this client knows no set, and enough nodes answer to form one.
    pub(crate) fn wants_to_form(&self) -> bool {
        // If another number was found, all are refused for that: it may have gone since.
        let enough_answer = || self.elsewhere.is_some() || self.may_go_without(&self.missing());
        !self.config.passive && self.roster.is_none() && self.all_tried() && enough_answer()
    }

    /// Records what another shard has recorded, beside what this client counts there, if that is something else.
    pub(crate) fn note_elsewhere(&mut self, elsewhere: Option<(Division, Division)>) {
        self.elsewhere = elsewhere;
    }

    /// Whether this client was there when the newest roster was chosen. It is then the one to go on first.
    pub fn chose_roster(&self) -> bool {
        self.chose
    }

    /// Asks for a change, instead of the one that was asked for before.
    pub fn request(&mut self, change: Change) {
        self.request = Some(change);
    }

    /// Whether this change is asked for.
    pub fn is_requested(&self, change: Change) -> bool {
        self.request == Some(change)
    }

    /// Does not ask for this change any more.
    pub fn withdraw(&mut self, change: Change) {
        self.request = self.request.filter(|request| *request != change);
    }

    /// Records what an inspection found, or that the node does not answer. `now` is the time on the client's clock.
    pub fn observe(&mut self, node: usize, seen: Option<Inspection>, now: Duration) {
        let asked = self.log_positions();
        self.observe_since(&asked, node, seen, now);
    }

    /// How far the logs of the members are known to be written: to be taken before a node is inspected.
    pub fn log_positions(&self) -> LogPositions {
        self.positions.clone()
    }

    /// Notes how far the log of a node is written, by an inspection that nothing else is concluded from.
    pub(crate) fn note_log_position(&mut self, seen: &Inspection) {
        self.positions.note(seen);
    }

    /// As [`observe`](Self::observe), for inspections of one node that may overtake each other: `asked` is what was known when this one
    /// began.
    pub fn observe_since(&mut self, asked: &LogPositions, node: usize, mut seen: Option<Inspection>, now: Duration) {
        if let Some(seen) = &mut seen {
            // By what was known when it was asked: an answer that was overtaken by a later one is no sign of a loss.
            asked.judge(seen);
            self.positions.note(seen);
        }
        (self.nodes[node].seen, self.nodes[node].was_tried) = (seen, true);
        self.learn(now);
    }

    /// Forgets what an inspection found. Until the node is tried again, it is not known to be missing.
    pub(crate) fn forget(&mut self, node: usize) {
        (self.nodes[node].seen, self.nodes[node].was_tried) = (None, false);
    }

    /// Whether each node was tried, whatever came of it.
    pub(crate) fn all_tried(&self) -> bool {
        self.nodes.iter().all(|known| known.was_tried)
    }

    /// Records what was written to a node.
    pub fn written(&mut self, node: usize, record: NodeRecord, now: Duration) {
        if let Some(seen) = &mut self.nodes[node].seen {
            seen.record = FoundRecord::Record(record);
        }
        self.learn(now);
    }

    /// Records the highest fence of a node that was read under this roster.
    pub fn fence_read(&mut self, node: usize, roster: (SetId, u64), reading: FenceReading) {
        if self.roster.as_ref().is_some_and(|newest| newest.id() == roster) {
            self.nodes[node].fence = Some(reading);
        }
    }

    /// What is to be done now. `clock` is the cluster clock, and `draw` draws random numbers.
    pub fn steps(&mut self, now: Duration, clock: u64, draw: &mut dyn FnMut() -> u64) -> Vec<Step> {
        // A set over which another one was formed must not be changed: its masters are in use by that one.
        if self.config.passive || self.successor.is_some() {
            return Vec::new();
        }
        let identities = self.without_paused(self.identities(draw));
        // First: a node without an id has no place in any roster, and none of what follows can concern it.
        if !identities.is_empty() {
            return identities;
        }
        let (decided, previous) = match self.roster.clone() {
            Some(roster) if !self.must_form(&roster) => {
                let steps = self.without_paused(self.upkeep(&roster, clock, draw));
                if !steps.is_empty() {
                    return steps;
                }
                (self.change(&roster, now, draw), roster.members().collect())
            }
            _ => (self.form(now, draw), Vec::new()),
        };
        let steps = decided.unwrap_or_else(|chosen| {
            self.adopt(chosen.clone(), previous, now);
            self.chose = true;
            self.upkeep(&chosen, clock, draw)
        });
        self.without_paused(steps)
    }

    /// Stops steps on a node that refuses them, or goes on with them.
    pub fn pause(&mut self, node: usize, paused: bool) {
        self.nodes[node].is_paused = paused;
    }

    fn without_paused(&self, mut steps: Vec<Step>) -> Vec<Step> {
        steps.retain(|step| {
            let (Step::Write { node, .. } | Step::ReadFence { node, .. }) = step;
            !self.nodes[*node].is_paused
        });
        steps
    }

    /// Takes a roster that was chosen as the newest one.
    ///
    /// Of a set that it leaves, this client or another one may hold locks that the next set knows nothing of. Whether the nodes of the
    /// next one sat out a quarantine, and whether this client knew it before, says nothing about that: its addresses may have led
    /// from one to the other, and back.
    pub(super) fn adopt(&mut self, roster: Roster, previous: Vec<MemberId>, now: Duration) {
        if let Some(left) = self.roster.as_ref().filter(|left| left.set != roster.set) {
            self.successor = None;
            self.hold = self.hold.max(now.saturating_add(quarantine_length(left.quarantine_ttl)));
        }
        // Read again under the new roster: the members of the old one may have granted more meanwhile.
        self.nodes.iter_mut().for_each(|known| known.fence = None);
        (self.roster, self.previous, self.chose) = (Some(roster), previous, false);
        self.proposals.forget();
    }

    /// Finds the newest roster, and who sits where.
    fn learn(&mut self, now: Duration) {
        if let Some((roster, previous)) = self.newest()
            && self.roster.as_ref() != Some(&roster)
        {
            self.adopt(roster, previous, now);
        }
        let Some(roster) = &self.roster else { return };
        let is_read = |member| self.nodes.iter().any(|node| node.record().is_some_and(|it| it.member == member));
        self.positions.retain(|member| roster.contains(member) || is_read(member));
        self.successor = self.formed_over_it(roster).or(self.successor.take());
        for known in &mut self.nodes {
            if let Some(record) = known.record().filter(|record| roster.contains(record.member)) {
                known.member = Some(record.member);
            }
        }
    }

    /// The newest roster that is installed anywhere and is of this client's set.
    fn newest(&self) -> Option<(Roster, Vec<MemberId>)> {
        let installed = || (0..self.nodes.len()).filter_map(|node| self.record(node)?.roster.as_ref());
        let present = |roster: &Roster| roster.members().filter(|id| self.node_of(*id).is_some()).count();
        let one_set = || installed().all(|one| installed().all(|other| one.set == other.set));
        let eligible = |roster: &&Roster| match &self.roster {
            Some(known) if known.set == roster.set => true,
            None if one_set() => true,
            // Of another set, a majority has to be here: a single master of it may have strayed into this list.
            _ => present(roster) >= majority(roster.seats.len()),
        };
        // Of two sets, the one that is in use.
        let in_use = |roster: &Roster| installed().filter(|other| *other == roster).count();
        let newest = installed().filter(eligible).max_by_key(|roster| (roster.generation, in_use(roster)))?.clone();
        if self.roster.as_ref().is_some_and(|known| known.generation >= newest.generation && known.set == newest.set) {
            return None;
        }
        let has_it = |record: &&NodeRecord| record.roster.as_ref() == Some(&newest);
        let previous = (0..self.nodes.len()).filter_map(|node| self.record(node)).find(has_it)?.previous.clone();
        Some((newest, previous))
    }
}
