use std::time::Duration;

use lock_core::node::{MemberId, Roster};

use super::Nemesis;
use crate::plan::{Plan, Scenario};
use lock_fake_redis::FakeRedis;

impl Nemesis {
    /// Whether all masters vote that the clients are meant to have.
    pub(super) fn all_vote(&self, now: Duration) -> bool {
        let newest = self.newest_roster(now);
        let mut voters = self.masters.iter().map(|master| self.voter(*master));
        voters.all(|voter| newest.as_ref().is_some_and(|newest| self.votes(voter, newest, now)))
    }

    /// Whether a server may stop being a master that remembers all it promised. The promises hold while those that did, and do
    /// not vote again since then, are a minority.
    pub(super) fn may_impair(&self, server: usize, now: Duration) -> bool {
        if self.plan.scenario == Scenario::Amnesia {
            return true;
        }
        let Some(newest) = self.newest_roster(now) else { return false };
        let servers = 0..self.servers.len();
        let remain =
            |other: &usize| *other != server && self.votes(*other, &newest, now) && !self.is_leaving(*other, now);
        servers.filter(remain).count() >= newest.seats.len() - Plan::minority(newest.seats.len())
    }

    /// Whether its locks may be missing, or clients are about to go on without it.
    fn is_leaving(&self, server: usize, now: Duration) -> bool {
        let stepped = self.stepped.get(&server).is_some_and(|until| now < *until);
        stepped || !(self.masters.contains(&server) || self.plan.has_clusters())
    }

    /// Whether it is a member by this roster, and has installed it.
    fn votes(&self, server: usize, newest: &Roster, now: Duration) -> bool {
        let field = |name| self.servers[server].record_field(self.plan.prefix(), name, now);
        let member = field("member").and_then(|member| MemberId::parse(&member));
        let votes = field("epoch").is_some_and(|epoch| !epoch.is_empty());
        votes && self.has_locks(server) && member.is_some_and(|member| newest.contains(member))
    }

    /// The roster of the highest generation that any server has installed.
    fn newest_roster(&self, now: Duration) -> Option<Roster> {
        let roster = |server: &FakeRedis| Roster::parse(&server.record_field(self.plan.prefix(), "roster", now)?);
        let rosters = self.servers.iter().filter_map(roster);
        rosters.max_by_key(|roster| roster.generation)
    }
}
