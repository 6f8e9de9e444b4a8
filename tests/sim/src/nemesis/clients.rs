use std::time::Duration;

use super::{FollowUp, Nemesis};
use crate::history::Event;
use crate::hosts::Hosts;
use crate::rng::Rng;

impl Nemesis {
    /// In some runs, no wake-up of one client ever arrives, and yet it has its turns.
    pub(super) fn deafen(&mut self, hosts: &Hosts) {
        let mut rng = Rng::new(self.plan.seed, &[5]);
        if rng.percent(20) {
            let client = usize::try_from(rng.between(0, self.plan.clients as u64 - 1)).unwrap_or_default();
            self.world.deafen(client);
            self.count(hosts.elapsed(), "lost wake-ups", &format!("client-{client} hears none"));
        }
    }

    /// Turns off the machine of a client, unless it is off or suspended.
    pub(super) fn crash_client(&mut self, hosts: &mut Hosts, client: usize, until: Duration) {
        if !self.client_runs(client) {
            return;
        }
        let now = hosts.elapsed();
        self.count(now, "crash of a client", &format!("client-{client} is down until {until:?}"));
        self.stop_client(hosts, client, until);
    }

    pub(super) fn stop_client(&mut self, hosts: &mut Hosts, client: usize, until: Duration) {
        hosts.crash_client(client);
        self.world.record_at(hosts.elapsed(), Event::Crashed { client });
        self.clients_down.insert(client);
        self.follow_ups.push((until, FollowUp::StartClient(client)));
    }

    pub(super) fn start_client(&mut self, hosts: &mut Hosts, client: usize) {
        self.clients_down.remove(&client);
        hosts.start_client(client);
    }

    /// Suspends the machine of a client.
    pub(super) fn suspend_client(&mut self, hosts: &mut Hosts, client: usize, until: Duration) {
        if !self.client_runs(client) {
            return;
        }
        let now = hosts.elapsed();
        self.count(
            now,
            "suspension of a client",
            &format!("the clock of client-{client} stands still until {until:?}"),
        );
        self.freeze_client(hosts, client, until);
    }

    pub(super) fn freeze_client(&mut self, hosts: &mut Hosts, client: usize, until: Duration) {
        hosts.machine(client).suspend();
        self.world.record_at(hosts.elapsed(), Event::Suspended { client });
        self.clients_suspended.insert(client);
        self.follow_ups.push((until, FollowUp::ResumeClient(client)));
    }

    pub(super) fn resume_client(&mut self, hosts: &mut Hosts, client: usize) {
        hosts.machine(client).resume();
        self.world.record_at(hosts.elapsed(), Event::Resumed { client });
        self.clients_suspended.remove(&client);
    }

    pub(super) fn client_runs(&self, client: usize) -> bool {
        !self.clients_down.contains(&client) && !self.clients_suspended.contains(&client)
    }
}
