use std::time::Duration;

use super::{FollowUp, Nemesis};
use crate::history::Event;
use crate::hosts::Hosts;
use crate::plan::MAX_TTL;
use lock_fake_redis::Memory;

/// How much longer than its ttl a lock may be missed on a server whose clock stepped: while its owner renews it there.
const STEP_MARGIN: Duration = Duration::from_millis(200);

impl Nemesis {
    /// The spare servers are off until they are needed, and some masters start late for the first time.
    pub(super) fn begin(&mut self, hosts: &mut Hosts) {
        for server in 0..self.servers.len() {
            let starts = self.plan.servers[server].starts;
            if starts != Some(Duration::ZERO) {
                hosts.crash_server(server);
                self.servers_down.insert(server);
                self.follow_ups.extend(starts.map(|starts| (starts, FollowUp::StartServer(server))));
            }
        }
        self.deafen(hosts);
    }

    /// Ends the process of a server, which is started again later with or without its memory.
    pub(super) fn crash(&mut self, hosts: &mut Hosts, server: usize, until: Duration) {
        let now = hosts.elapsed();
        // A restarted master has to be admitted again, whatever it remembers.
        if self.servers_down.contains(&server) || !self.may_impair(server, now) {
            return;
        }
        let wanted = self.rng.pick(&[Memory::Kept, Memory::Saved, Memory::Lost, Memory::Lost]);
        let memory = if self.may_lose_memory(server, now) { wanted } else { Memory::Kept };
        let name = match memory {
            Memory::Kept => "crash of a server",
            Memory::Saved => "crash of a server, with an old memory",
            Memory::Lost => "crash of a server, without its memory",
        };
        self.count(now, name, &format!("redis-{server} is down until {until:?}, memory {memory:?}"));
        hosts.crash_server(server);
        self.servers_down.insert(server);
        // Its memory is lost now, so that it counts as forgetful while it is down.
        self.servers[server].restart(memory);
        if self.rng.percent(30) {
            // What it says about its disk may change with a restart, and may be wrong.
            let durable = self.rng.percent(50);
            self.servers[server].set_durable(durable);
        }
        self.follow_ups.push((until, FollowUp::StartServer(server)));
    }

    pub(super) fn start_server(&mut self, hosts: &mut Hosts, server: usize) {
        self.servers_down.remove(&server);
        hosts.start_server(server);
    }

    /// Flushes a server, if it may forget.
    pub(super) fn flush(&mut self, server: usize, now: Duration) {
        if self.may_lose_memory(server, now) {
            self.count(now, "flushall", &format!("redis-{server} is flushed"));
            self.servers[server].flush_all();
        }
    }

    /// A replica copies a server, which later becomes a replica of that one.
    pub(super) fn copy(&mut self, server: usize, now: Duration) {
        self.servers[server].save();
        self.follow_ups.push((now + self.rng.millis(20, 600), FollowUp::Flip(server)));
    }

    /// Makes a server a replica of its copy, and a master again: the process is the same, and its data is that of a moment before.
    pub(super) fn flip(&mut self, server: usize, now: Duration) {
        if !self.servers_down.contains(&server) && self.may_lose_memory(server, now) {
            self.count(now, "master that was a replica", &format!("redis-{server} has the data of its copy"));
            self.servers[server].flip();
        }
    }

    /// Ends the connections of a server.
    pub(super) fn cut_connections(&mut self, server: usize, now: Duration) {
        self.count(now, "cut connections", &format!("redis-{server} cuts its connections"));
        self.servers[server].cut_connections();
    }

    /// Lets a server forget its scripts.
    pub(super) fn flush_scripts(&mut self, server: usize, now: Duration) {
        self.count(now, "script flush", &format!("redis-{server} forgets its scripts"));
        self.servers[server].flush_scripts();
    }

    /// Takes the right to `PUBLISH` from the users of a server: nobody is woken up by it.
    pub(super) fn deny_publish(&mut self, server: usize, now: Duration, until: Duration) {
        self.count(now, "PUBLISH denied", &format!("redis-{server} lets nobody PUBLISH until {until:?}"));
        self.servers[server].set_mute(true);
        self.follow_ups.push((until, FollowUp::AllowPublish(server)));
    }

    /// Turns the clock of the one server whose clock does that. A step forward frees the locks that are held on it.
    pub(super) fn step_clock(&mut self, now: Duration) {
        let Some(server) = self.plan.servers.iter().position(|server| server.steps) else { return };
        let most = self.rng.pick(&[2_000_000, 600_000_000, 3 * 3_600_000_000]);
        let step = self.rng.within(most);
        if step > 0 && !self.may_impair(server, now) {
            return;
        }
        self.count(now, "clock step", &format!("the clock of redis-{server} steps by {step} µs"));
        let prefix = self.plan.prefix();
        let held = self.servers[server].holders(prefix, now);
        self.servers[server].jump(step);
        let still_held = self.servers[server].holders(prefix, now);
        for (lock, _) in held.into_iter().filter(|holder| !still_held.contains(holder)) {
            let resource = lock.strip_prefix(prefix).unwrap_or_default().to_owned();
            self.world.record_at(now, Event::Freed { resource });
        }
        if step < 0 {
            self.stepped_back.insert(server);
        } else {
            self.stepped.insert(server, now + MAX_TTL + STEP_MARGIN);
        }
    }

    /// Turns the clock of any server, however many there are with a wrong clock.
    pub(super) fn jump(&mut self, server: usize, now: Duration) {
        let most = self.rng.pick(&[100_000, 2_000_000, 3_600_000_000]);
        let jump = self.rng.within(most);
        self.count(now, "clock jump", &format!("the clock of redis-{server} jumps by {jump} µs"));
        self.servers[server].jump(jump);
    }

    /// Whether a server may lose its memory.
    pub(super) fn may_lose_memory(&self, server: usize, now: Duration) -> bool {
        self.plan.forgetful && self.may_impair(server, now)
    }
}
