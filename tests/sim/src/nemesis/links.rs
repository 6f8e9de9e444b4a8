use std::time::Duration;

use super::{FollowUp, Nemesis};
use crate::hosts::Hosts;
use crate::plan::Plan;

pub(super) type Link = (usize, usize);

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkFault {
    /// Messages are lost in both directions.
    Partition,
    /// Messages of the client are lost.
    PartitionToServer,
    /// Messages of the server are lost: requests are executed, but their replies do not arrive.
    PartitionToClient,
    /// Messages arrive after the repair.
    Held,
    /// Messages have a long and varying latency.
    Slow,
}

impl Nemesis {
    /// Cuts a client off from all servers, as if it did not run, unless one of its links has a fault.
    pub(super) fn pause(&mut self, hosts: &Hosts, client: usize, until: Duration) {
        let links: Vec<Link> = (0..self.servers.len()).map(|server| (client, server)).collect();
        if links.iter().all(|link| !self.faulty_links.contains(link)) {
            self.break_links(hosts, "pause of a client", LinkFault::Held, links, until);
        }
    }

    pub(super) fn inject_link_fault(&mut self, hosts: &Hosts, client: usize, server: usize, until: Duration) {
        let (clients, servers) = (0..self.plan.clients, 0..self.servers.len());
        let mut links: Vec<Link> = match self.rng.between(0, 9) {
            0..=2 => servers.map(|server| (client, server)).collect(),
            3..=6 => clients.map(|client| (client, server)).collect(),
            7 => clients.flat_map(|client| servers.clone().map(move |server| (client, server))).collect(),
            _ => vec![(client, server)],
        };
        links.retain(|link| !self.faulty_links.contains(link));
        let fault = self.rng.pick(&[
            LinkFault::Partition,
            LinkFault::PartitionToServer,
            LinkFault::PartitionToClient,
            LinkFault::Held,
            LinkFault::Slow,
            LinkFault::Slow,
        ]);
        let name = match fault {
            LinkFault::Partition => "partition",
            LinkFault::PartitionToServer => "one-way partition to a server",
            LinkFault::PartitionToClient => "one-way partition from a server",
            LinkFault::Held => "held messages",
            LinkFault::Slow => "slow link",
        };
        if !links.is_empty() {
            self.break_links(hosts, name, fault, links, until);
        }
    }

    pub(super) fn break_links(
        &mut self,
        hosts: &Hosts,
        name: &'static str,
        fault: LinkFault,
        links: Vec<Link>,
        until: Duration,
    ) {
        self.count(hosts.elapsed(), name, &format!("{fault:?} on {links:?} until {until:?}"));
        let slow = self.rng.millis(15, 150);
        for (client, server) in &links {
            let (client, server) = (Plan::client_name(*client), Plan::server_name(*server));
            match fault {
                LinkFault::Partition => hosts.sim.partition(client, server),
                LinkFault::PartitionToServer => hosts.sim.partition_oneway(client, server),
                LinkFault::PartitionToClient => hosts.sim.partition_oneway(server, client),
                LinkFault::Held => hosts.sim.hold(client, server),
                LinkFault::Slow => hosts.sim.set_link_max_message_latency(client, server, slow),
            }
        }
        self.faulty_links.extend(&links);
        self.follow_ups.push((until, FollowUp::RepairLinks(fault, links)));
    }

    pub(super) fn repair_links(&mut self, hosts: &Hosts, fault: LinkFault, links: Vec<Link>) {
        for link in links {
            self.faulty_links.remove(&link);
            let (client, server) = (Plan::client_name(link.0), Plan::server_name(link.1));
            match fault {
                LinkFault::Partition => hosts.sim.repair(client, server),
                LinkFault::PartitionToServer => hosts.sim.repair_oneway(client, server),
                LinkFault::PartitionToClient => hosts.sim.repair_oneway(server, client),
                LinkFault::Held => hosts.sim.release(client, server),
                LinkFault::Slow => {
                    let usual = Duration::from_millis(self.plan.latency);
                    hosts.sim.set_link_max_message_latency(client, server, usual);
                }
            }
        }
    }
}
