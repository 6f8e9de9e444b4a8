use std::sync::PoisonError;

use lock_core::node::{NodeRecord, Roster};

use super::mind::Mind;
use super::model::{MAX_STEPS, MembershipModel};
use super::node::MemberNode;
use super::shared::{Shared, hash_of};
use super::state::MembershipState;

impl MembershipModel {
    /// Whether each client whose nodes can complete a change completes it, if it is alone from now on and faults stop.
    pub(super) fn comes_to_an_end(&self, state: &MembershipState) -> bool {
        (0..state.clients.len()).all(|client| {
            let mut nodes = state.nodes.clone();
            nodes.iter_mut().for_each(|node| (node.fence, node.key) = (0, None));
            let key = hash_of(&(client, &nodes, &state.clients[client], state.now));
            if let Some(known) = self.settled.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
                return *known;
            }
            let ends =
                !self.can_complete(client, &nodes) || self.completes(client, nodes, &state.clients[client], state.now);
            self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ends);
            ends
        })
    }

    /// Whether a majority of the newest roster that a client finds, or of the one before, remembers and is in its list.
    fn can_complete(&self, client: usize, nodes: &[MemberNode]) -> bool {
        let list = self.setting.lists[client];
        let record = |node: &usize| nodes[*node].live_record(*node);
        let records: Vec<&NodeRecord> = list.iter().filter_map(record).collect();
        let newest = records.iter().max_by_key(|record| record.roster.as_ref().map(|roster| roster.generation));
        let Some((newest, roster)) = newest.and_then(|newest| Some((newest, newest.roster.as_ref()?))) else {
            return records.iter().all(|record| record.accepted.is_none());
        };
        let votes = |record: &&&NodeRecord| {
            record.epoch.is_some() && record.roster.as_ref().is_some_and(|own| own.set == roster.set)
        };
        let of_newest = records.iter().filter(votes).filter(|record| roster.contains(record.member)).count();
        let of_previous =
            records.iter().filter(votes).filter(|record| newest.previous.contains(&record.member)).count();
        let pending = |record: &&NodeRecord| record.epoch.is_none() && roster.contains(record.member);
        of_newest >= self.majority() || records.iter().any(pending) && of_previous >= self.majority()
    }

    fn completes(&self, client: usize, mut nodes: Vec<MemberNode>, mind: &Shared<Mind>, now: u8) -> bool {
        let (mut mind, mut now) = (mind.clone(), now);
        let last = now + 4 * self.setting.ttl() + 2;
        for _ in 0..MAX_STEPS {
            mind = self.look_at_all(&nodes, now, client, &mind);
            if !mind.steps.is_empty() {
                mind = self.carry_out(&mut nodes, now, client, 0, &mind);
            } else if now < last {
                now += 1;
            } else {
                break;
            }
        }
        let Some(roster) = mind.membership.roster() else { return false };
        let list = self.setting.lists[client];
        mind.steps.is_empty()
            && mind.votes(now, &self.setting).iter().flatten().count() >= self.majority()
            && list.iter().all(|node| nodes[*node].is_done(*node, roster))
    }
}

impl MemberNode {
    /// Whether it votes, or has lost its seat to another.
    fn is_done(&self, node: usize, roster: &Roster) -> bool {
        self.live_record(node).is_some_and(|record| {
            if roster.contains(record.member) { record.epoch.is_some() } else { record.was.is_some() }
        })
    }
}
