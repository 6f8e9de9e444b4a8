use std::time::Duration;

use super::{FollowUp, Nemesis};
use crate::hosts::Hosts;
use crate::plan::Scenario;

/// A master is being replaced by a blank server at another address: the clients are restarted one by one with the new list.
pub(super) struct Rollout {
    seat: usize,
    /// The server that had the seat before.
    old: usize,
    /// When the next client is restarted.
    next: Duration,
    may_turn_back: bool,
}

impl Nemesis {
    /// Begins to replace a master, if there is a spare server.
    pub(super) fn begin_rollout(&mut self, hosts: &Hosts) {
        let now = hosts.elapsed();
        let seat = usize::try_from(self.rng.between(0, self.masters.len() as u64 - 1)).unwrap_or_default();
        let old = self.masters[seat];
        if self.rollout.is_some() || self.plan.scenario == Scenario::Amnesia || !self.may_impair(old, now) {
            return;
        }
        let Some(new) = (!self.spares.is_empty()).then(|| self.spares.remove(0)) else { return };
        self.masters[seat] = new;
        self.count(now, "replacement of a master", &format!("redis-{new} replaces redis-{old}"));
        // Mostly up before the first client has it in its list.
        let up = now + if self.rng.percent(80) { Duration::ZERO } else { self.rng.millis(0, 1_500) };
        self.follow_ups.push((up, FollowUp::StartServer(new)));
        let may_turn_back = self.rng.percent(60);
        self.rollout = Some(Rollout { seat, old, next: now + self.rng.millis(0, 300), may_turn_back });
    }

    /// Restarts the next client with the new list, if it is time, or takes the replacement back. When there are no faults any
    /// more, restarts all of them.
    pub(super) fn roll_out(&mut self, hosts: &mut Hosts, faults_ended: bool) {
        let now = hosts.elapsed();
        let Some(Rollout { seat, old, next, may_turn_back }) = self.rollout else { return };
        if now < next && !faults_ended {
            return;
        }
        let behind: Vec<usize> =
            (0..self.plan.clients).filter(|client| self.world.list(*client) != self.masters).collect();
        if behind.is_empty() {
            self.rollout = None;
            return;
        }
        let began = behind.len() < self.plan.clients;
        let may_turn_back = may_turn_back && self.may_impair(old, now) && self.may_impair(self.masters[seat], now);
        if !faults_ended && began && may_turn_back {
            return self.turn_back(seat, old, now);
        }
        let ready: Vec<usize> = behind.into_iter().filter(|client| !self.clients_suspended.contains(client)).collect();
        if let Some(rollout) = &mut self.rollout {
            rollout.next = now + self.rng.millis(20, 800);
        }
        let some = if ready.is_empty() || faults_ended { ready } else { vec![self.rng.pick(&ready)] };
        for client in some {
            self.world.set_list(client, self.masters.clone());
            self.count(now, "another list for a client", &format!("client-{client} gets {:?}", self.masters));
            // A client that is down has the list when it starts.
            if !self.clients_down.contains(&client) {
                let pause = self.rng.pick(&[1, 5, 50, 300]);
                self.stop_client(hosts, client, now + Duration::from_millis(pause));
            }
        }
    }

    /// The old server gets its seat back, as a blank one, and the clients that have the new list get the old one again.
    fn turn_back(&mut self, seat: usize, old: usize, now: Duration) {
        let new = self.masters[seat];
        self.count(now, "replacement taken back", &format!("redis-{old} is flushed, and replaces redis-{new}"));
        self.masters[seat] = old;
        self.servers[old].flush_all();
        self.rollout = Some(Rollout { seat, old: new, next: now, may_turn_back: false });
    }
}
