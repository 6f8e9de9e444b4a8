use std::time::Duration;

use super::{FollowUp, Nemesis};
use crate::hosts::Hosts;
use crate::plan::Plan;
use lock_fake_redis::Flaw;

/// How long an old primary may go on that does not know that it was replaced.
const STALE: [u64; 4] = [0, 50, 400, 1_500];

/// What becomes of the locks of a cluster, and of who has them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// They are moved to another primary, key by key.
    Move,
    /// A replica takes the place of their primary, with what it had of it at this time before, in milliseconds.
    FailOver { behind: u64 },
}

impl Nemesis {
    /// Faults of masters that are clusters.
    pub(super) fn inject_into_clusters(&mut self, hosts: &mut Hosts, [server, client]: [usize; 2], until: Duration) {
        let now = hosts.elapsed();
        if self.plan.flaw == Some(Flaw::ServesWhatIsLeft) {
            // Among all other faults, one seed of fifty shows it.
            return self.announce(hosts, self.plan.cluster_of(server), Change::Move);
        }
        match self.rng.between(0, 99) {
            0..=29 => self.inject_link_fault(hosts, client, server, until),
            30..=37 => {
                self.count(now, "hang of a server", &format!("redis-{server} hangs until {until:?}"));
                self.servers[server].hang(until);
            }
            38..=44 => self.cut_connections(server, now),
            45..=47 => self.flush_scripts(server, now),
            48..=53 => self.crash_client(hosts, client, until),
            54..=60 => self.suspend_client(hosts, client, until),
            61..=67 => self.take_down(server, now, until),
            68..=83 => self.announce(hosts, self.plan.cluster_of(server), Change::Move),
            _ => {
                let behind = self.rng.pick(&[0, 0, 20, 200]);
                self.announce(hosts, self.plan.cluster_of(server), Change::FailOver { behind });
            }
        }
    }

    /// A server misses most of the others of its cluster.
    fn take_down(&mut self, server: usize, now: Duration, until: Duration) {
        self.count(now, "cluster down", &format!("redis-{server} misses its cluster until {until:?}"));
        self.servers[server].set_cluster_down(true);
        self.follow_ups.push((until, FollowUp::ClusterIsUp(server)));
    }

    /// Begins a change, often when another cluster was cut off for a while: there are locks then that a bare majority has.
    fn announce(&mut self, hosts: &Hosts, cluster: usize, change: Change) {
        let mut at = hosts.elapsed();
        if self.rng.percent(50) {
            at += self.rng.millis(100, 400);
            let other = (cluster + 1 + usize::from(self.rng.percent(50))) % self.plan.masters;
            let servers = (0..self.servers.len()).filter(|server| self.plan.cluster_of(*server) == other);
            self.isolate(hosts, servers.collect(), at);
        }
        if let Change::FailOver { behind } = change {
            let replicated = at.saturating_sub(Duration::from_millis(behind));
            self.follow_ups.push((replicated, FollowUp::Replicate(cluster)));
        }
        self.follow_ups.push((at, FollowUp::Begin(cluster, change)));
    }

    /// The server that has the locks of a cluster, and the one that may be next.
    fn pair(&self, cluster: usize) -> (usize, usize) {
        let owner = self.owners[cluster];
        let next = if owner == cluster { cluster + self.plan.masters } else { cluster };
        (owner, next)
    }

    /// What the replica has is what the primary has now.
    pub(super) fn replicate(&self, cluster: usize) {
        if !self.changing.contains(&cluster) {
            self.servers[self.owners[cluster]].save();
        }
    }

    /// Begins a change, if this cluster may forget.
    pub(super) fn begin_change(&mut self, now: Duration, cluster: usize, change: Change) {
        let (owner, next) = self.pair(cluster);
        if self.changing.contains(&cluster) || !self.may_impair(owner, now) {
            return;
        }
        self.changing.insert(cluster);
        match change {
            Change::Move => {
                self.count(now, "slot that moves", &format!("from redis-{owner} to redis-{next}"));
                self.servers[next].become_primary();
                self.servers[owner].begin_to_move(self.plan.place_of(next));
                self.follow_ups.push((now + self.rng.millis(1, 100), FollowUp::MoveKey(cluster)));
            }
            Change::FailOver { behind } => {
                self.count(now, "failover", &format!("from redis-{owner} to redis-{next}, {behind} ms behind"));
                self.servers[next].take_over(&self.servers[owner]);
                self.owners[cluster] = next;
                let longest = self.rng.pick(&STALE);
                let stale = now + self.rng.millis(0, longest);
                self.follow_ups.push((stale, FollowUp::Demote(cluster, owner)));
                self.tell_witness(cluster, now, stale);
            }
        }
    }

    /// Moves a key of a slot that moves; and the slot itself, when it has none.
    pub(super) fn move_key(&mut self, now: Duration, cluster: usize) {
        let (owner, next) = self.pair(cluster);
        loop {
            let which = usize::try_from(self.rng.between(0, 1_000)).unwrap_or_default();
            if !self.servers[owner].move_key(&self.servers[next], which) {
                break;
            }
            if now < self.plan.fault_phase {
                self.follow_ups.push((now + self.rng.millis(1, 25), FollowUp::MoveKey(cluster)));
                return;
            }
        }
        // The new owner first, so that there is no time without one.
        for server in [next, owner] {
            self.servers[server].learn_owner(self.plan.place_of(next));
        }
        self.owners[cluster] = next;
        self.changing.remove(&cluster);
        let latest = now + self.rng.millis(0, 300);
        self.tell_witness(cluster, now, latest);
    }

    /// A primary that was replaced learns that it was.
    pub(super) fn demote(&mut self, cluster: usize, former: usize) {
        self.servers[former].become_replica(self.plan.place_of(self.owners[cluster]));
        self.changing.remove(&cluster);
    }

    /// The server of the cluster that never has the locks learns who has them.
    pub(super) fn learn(&self, cluster: usize) {
        self.servers[cluster + 2 * self.plan.masters].learn_owner(self.plan.place_of(self.owners[cluster]));
    }

    fn tell_witness(&mut self, cluster: usize, earliest: Duration, latest: Duration) {
        let at = earliest + self.rng.millis(0, u64::try_from((latest - earliest).as_millis()).unwrap_or_default());
        self.follow_ups.push((at, FollowUp::Learn(cluster)));
    }

    /// Whether the locks of a cluster are with this server, and are to stay there.
    pub(super) fn has_locks(&self, server: usize) -> bool {
        let cluster = self.plan.cluster_of(server);
        !self.plan.has_clusters() || (self.owners[cluster] == server && !self.changing.contains(&cluster))
    }

    /// The server that decides as this master.
    pub(super) fn voter(&self, master: usize) -> usize {
        if self.plan.has_clusters() { self.owners[master] } else { master }
    }
}

impl Plan {
    /// Whether each master is a cluster of three servers: two that may have the locks, and one that only knows where they are.
    pub(crate) fn has_clusters(&self) -> bool {
        self.scenario == crate::plan::Scenario::Clusters
    }

    /// The servers of a cluster, which are one master, in the order of their places.
    pub(crate) fn cluster(&self, master: usize) -> Vec<usize> {
        (0..3).map(|place| master + place * self.masters).collect()
    }

    fn cluster_of(&self, server: usize) -> usize {
        server % self.masters
    }

    fn place_of(&self, server: usize) -> usize {
        server / self.masters
    }
}
