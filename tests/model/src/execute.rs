//! A node executes a request, and its vote is under way.

use lock_core::quorum::AcquireVote;

use super::action::Request;
use super::coverage::CoveragePoint;
use super::model::LockModel;
use super::mutant::Mutant;
use super::node::HELD;
use super::readers::changes_foreign_key;
use super::state::{Client, Key, Node, Phase, Replace, ReplySlot, State, Vote};

impl LockModel {
    pub(super) fn execute(&self, state: &mut State, index: usize, at: usize, request: Request, recorded: bool) {
        let mutant = self.setting.mutant;
        let owner = self.owner(index);
        let now = state.now;
        let key = Key { owner, expires: now + self.setting.ttl_of(index).max(1) };
        let (client, node) = (&mut state.clients[index], &mut state.nodes[at]);
        let before = *node;
        let vote = match request {
            Request::Acquire => {
                let tokens = if mutant == Some(Mutant::BlockCountsAsOne) { 1 } else { self.setting.tokens[index] };
                let epoch = client.acquires[at].unwrap_or_default();
                let vote = match self.setting.reads(index) {
                    true => node.acquire_to_read(key, epoch, tokens, mutant),
                    false => node.acquire(key, epoch, tokens, mutant),
                };
                if let Some(vote) = vote {
                    self.cover_vote(client, before, *node, at, vote, recorded);
                } else if client.acquires[at] != Some(node.epoch) {
                    self.coverage.mark(CoveragePoint::OldEpoch);
                }
                let is_delivered = |vote: &AcquireVote| self.setting.held_replies || *vote != HELD;
                vote.filter(is_delivered).map(Vote::Acquire)
            }
            Request::Confirm(round) => {
                let token = client.confirms[usize::from(round) - 1].token;
                let vote = node.confirm(owner, token, mutant);
                if client.phase == Phase::Ended && *node != before {
                    self.coverage.mark(CoveragePoint::LateConfirm);
                }
                Some(Vote::Confirm(round, vote))
            }
            Request::Extend => {
                let vote = node.extend(key, mutant);
                let is_counted = self.count_renewal(client, &before, at, key.owner, now, recorded);
                is_counted.then_some(Vote::Extend(vote))
            }
            Request::Downgrade => {
                let Some(vote) = node.downgrade(key, mutant) else { return };
                let is_counted = self.count_renewal(client, &before, at, key.owner, now, recorded);
                is_counted.then_some(Vote::Downgrade(vote))
            }
            Request::Replace => {
                let token = client.token.unwrap_or_default();
                match client.replaces[at] {
                    Some(Replace { epoch, reads: true }) => node.replace_reader(key, epoch, token, mutant),
                    Some(Replace { epoch, reads: false }) => node.replace(key, epoch, token, mutant),
                    None => {}
                }
                if *node != before {
                    self.coverage.mark(if client.phase == Phase::Ended {
                        CoveragePoint::LateReplace
                    } else {
                        CoveragePoint::Replaced
                    });
                }
                None
            }
            Request::Release => {
                node.release(owner, mutant);
                None
            }
        };
        if !self.setting.duplicates {
            client.remove_request(at, request);
        }
        state.breaches.foreign_key_changed |= changes_foreign_key(&before, node, owner);
        if let (true, Some(vote), Some(replies)) = (recorded, vote, client.replies_mut()) {
            replies[at] = ReplySlot::InFlight(vote);
        }
    }

    /// Whether a reply belongs to the renewal in progress. If it does, counts the node if it had the key until then.
    fn count_renewal(
        &self,
        client: &mut Client,
        before: &Node,
        at: usize,
        owner: usize,
        now: u8,
        recorded: bool,
    ) -> bool {
        let Phase::Holding { renewal: Some(renewal), .. } = &mut client.phase else { return false };
        if renewal.epochs[at] != Some(before.epoch) {
            return false;
        }
        if recorded && before.is_held_in_time_by(owner, now) {
            renewal.kept.insert(at);
            if client.replaces[at].is_some() {
                self.coverage.mark(CoveragePoint::KeptAfterReplace);
            }
        }
        true
    }

    /// Whether a request whose reply is not recorded leaves its node unchanged. Such actions need not be explored.
    pub(super) fn changes_nothing(&self, state: &State, index: usize, at: usize, request: Request) -> bool {
        let (client, node, no_mutant) = (&state.clients[index], &state.nodes[at], self.setting.mutant.is_none());
        match request {
            Request::Acquire => self.is_taken(node, index) || client.acquires[at] != Some(node.epoch),
            Request::Replace => {
                self.is_taken(node, index) || client.replaces[at].is_none_or(|replace| replace.epoch != node.epoch)
            }
            Request::Confirm(_) | Request::Extend | Request::Downgrade | Request::Release => {
                no_mutant && !node.is_held_by(index)
            }
        }
    }

    /// Whether neither an acquire nor a replace of a client changes a node. A mutant may change it all the same.
    fn is_taken(&self, node: &Node, client: usize) -> bool {
        let reads = self.setting.reads(client) || self.setting.downgrades;
        let may_join = reads && (node.is_shared() || self.setting.mutant.is_some());
        node.key.is_some() && !may_join
    }

    fn cover_vote(&self, client: &mut Client, before: Node, after: Node, at: usize, vote: AcquireVote, recorded: bool) {
        let AcquireVote::Granted { .. } = vote else { return };
        match &mut client.phase {
            Phase::Acquiring(attempt) if recorded => attempt.granted.insert(at),
            Phase::Acquiring(_) => {}
            _ if after != before => self.coverage.mark(CoveragePoint::LateAcquire),
            _ => {}
        }
        if after.forgot {
            self.coverage.mark(CoveragePoint::GrantedAfterDataLoss);
        }
    }
}
