use std::time::Duration;

use super::links::{Link, LinkFault};
use super::{FollowUp, Nemesis};
use crate::hosts::Hosts;
use crate::plan::{MAX_TTL, Plan};

impl Nemesis {
    /// The worst that a minority can do: some masters are cut off, so that a lock is granted without them; one that granted it
    /// forgets, as the others come back; and when it has joined, those that remember are cut off until it votes again.
    pub(super) fn ambush(&mut self, hosts: &mut Hosts, victim: usize, client: usize) {
        let now = hosts.elapsed();
        if !self.masters.contains(&victim) || !self.may_lose_memory(victim, now) {
            return;
        }
        let mut others: Vec<usize> = self.masters.iter().copied().filter(|master| *master != victim).collect();
        let shift = usize::try_from(self.rng.between(0, others.len() as u64 - 1)).unwrap_or_default();
        others.rotate_left(shift);
        let witnesses = others.split_off(Plan::minority(self.masters.len()));
        let forgets = now + self.rng.millis(100, 400);
        let joined = forgets + self.rng.millis(50, 250);
        let votes = forgets + MAX_TTL + self.rng.millis(300, 700);
        self.isolate(hosts, others, forgets);
        if self.rng.percent(50) {
            // It starts with other clocks than those that the others know.
            self.crash_client(hosts, client, now + Duration::from_millis(1));
        }
        self.follow_ups.push((forgets, FollowUp::Forget(victim)));
        self.follow_ups.push((joined, FollowUp::Isolate(witnesses, votes)));
    }

    /// Cuts servers off from all clients. Their connections are gone, too, so that they are used as soon as they are back.
    pub(super) fn isolate(&mut self, hosts: &Hosts, servers: Vec<usize>, until: Duration) {
        let all = |server: &usize| (0..self.plan.clients).map(|client| (client, *server)).collect::<Vec<Link>>();
        let mut links: Vec<Link> = servers.iter().flat_map(all).collect();
        links.retain(|link| !self.faulty_links.contains(link));
        self.break_links(hosts, "isolation of servers", LinkFault::Partition, links, until);
        self.follow_ups.extend(servers.into_iter().map(|server| (until, FollowUp::CutConnections(server))));
    }
}
