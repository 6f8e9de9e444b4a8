use std::time::Duration;

use super::Nemesis;
use crate::hosts::Hosts;
use crate::plan::{MAX_TTL, Scenario};

/// How much longer than its ttl a dead client is down: what it held is gone when it is back.
const MARGIN: Duration = Duration::from_millis(200);

impl Nemesis {
    /// Kills and freezes some of the clients that wait in line after the faults, once. At least one of them goes on.
    pub(super) fn thin_out(&mut self, hosts: &mut Hosts) {
        let (now, lines_up) = (hosts.elapsed(), self.plan.lines_up());
        if self.thinned_out || now < lines_up || self.plan.scenario == Scenario::Amnesia {
            return;
        }
        let in_line = self.world.in_line(lines_up);
        if in_line.len() < 2 || !self.rng.percent(5) {
            return;
        }
        self.thinned_out = true;
        for client in in_line.into_iter().skip(1) {
            match self.rng.between(0, 3) {
                0 => {
                    let until = now + MAX_TTL + MARGIN + self.rng.millis(0, 1_000);
                    self.count(now, "death in line", &format!("client-{client} is down until {until:?}"));
                    self.stop_client(hosts, client, until);
                }
                1 => {
                    let until = now + self.rng.millis(50, 2_500);
                    self.count(now, "freeze in line", &format!("client-{client} is frozen until {until:?}"));
                    self.freeze_client(hosts, client, until);
                }
                _ => {}
            }
        }
    }
}
