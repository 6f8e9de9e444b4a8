use std::time::Duration;

use super::Nemesis;
use crate::plan::MAX_TTL;
use lock_fake_redis::FakeRedis;

/// How long addresses lead to the same servers, at least: a quarantine, and as long as a client may take to connect to them. One that
/// never saw them would go on to count the votes of the others, and nobody could tell it that locks were granted here. For the same
/// reason no client is cut off meanwhile.
const STAY: Duration = MAX_TTL.saturating_mul(3);

impl Nemesis {
    /// Faults while addresses lead elsewhere and back.
    pub(super) fn inject_elsewhere(&mut self, now: Duration, server: usize) {
        match self.rng.between(0, 9) {
            0..=3 => self.lead_elsewhere(now),
            4..=6 => self.cut_connections(server, now),
            _ => self.flush_scripts(server, now),
        }
    }

    /// Lets all addresses lead to the other servers, as a proxy does that is given other targets. Both sides keep their data.
    fn lead_elsewhere(&mut self, now: Duration) {
        let there = !self.world.is_elsewhere();
        self.world.lead_elsewhere(if there { self.plan.masters } else { 0 });
        let name = if there { "addresses lead elsewhere" } else { "addresses lead back" };
        self.count(now, name, "all of them");
        let of_the_others = if there { 0..self.plan.masters } else { self.plan.masters..self.servers.len() };
        self.servers[of_the_others].iter().for_each(FakeRedis::cut_connections);
        self.next = Some(now + STAY + self.rng.millis(0, 1_500));
    }
}
