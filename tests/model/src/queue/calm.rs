//! Nobody is stuck: from any state, once it is calm, everyone who waits gets the lock.
//!
//! Calm means that holders let go and attempts under way fail, that keys and turns end when their time is over, that no old message
//! and no call comes, and that a majority of nodes answers. Only the timers are left: in each round, everyone who waits makes an
//! attempt, and between two rounds the turns lapse.
//!
//! In what order they try is up to chance, and it is left to it for [`UNFAIR`] rounds, in every way. From wherever that leads,
//! rounds in the order of the queue serve everyone, so many at most as there are processes that wait, and places and turns of
//! processes that are gone: a dead head of the queue costs its turn, and not more. It takes an order that is not for ever the same
//! wrong one: where one node is silent and the two others are offered to two waiters, those could go on for ever in the other order.
//! The timers are random for that.

use std::collections::{HashSet, VecDeque};
use std::sync::PoisonError;

use lock_core::quorum::{AcquireVote, Step as Verdict};

use super::master::{Master, Place};
use super::setting::QueueRules;
use super::state::{PROCESSES, Standing, TRIES, World};
use super::waiters::Waiters;
use crate::client::small;
use crate::decider::{Decider, Decision};
use crate::setting::Rules;
use crate::state::{Answer, NODES};

/// The rounds in which they try in every order.
const UNFAIR: usize = 2;

/// What matters of a state once it is calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quiet {
    nodes: [Master; NODES],
    /// Who waits, one bit a process.
    waiting: u8,
}

impl Waiters {
    /// Whether, whichever minority does not answer, everyone who waits gets the lock.
    pub(super) fn everyone_is_served(&self, world: &World) -> bool {
        let rules = self.setting.rules;
        let mut quiet = Quiet { nodes: world.nodes, waiting: 0 };
        for (number, process) in world.processes.iter().enumerate() {
            let place = match process.standing {
                Standing::Asking(_) => Place::Keep,
                Standing::Holding => Place::Leave,
                Standing::Waiting | Standing::Gone => continue,
            };
            let owner = process.tried.checked_sub(1).map(|last| self.owner(number, last));
            quiet.nodes.iter_mut().for_each(|node| node.release(owner, number, place, rules));
        }
        for (number, process) in world.processes.iter().enumerate() {
            let waits = matches!(process.standing, Standing::Waiting | Standing::Asking(_));
            quiet.waiting |= u8::from(waits) << number;
        }
        for node in &mut quiet.nodes {
            node.lock.key = None;
            node.called = 0;
        }
        let known = |served: &HashSet<Quiet>| served.contains(&quiet);
        if known(&self.served.lock().unwrap_or_else(PoisonError::into_inner)) {
            return true;
        }
        let served = (0..=NODES).all(|silent| quiet.is_served(silent, rules));
        if served {
            self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(quiet);
        }
        served
    }
}

impl Quiet {
    fn is_served(self, silent: usize, rules: QueueRules) -> bool {
        let mut states = HashSet::from([self]);
        for _ in 0..=UNFAIR {
            if !states.iter().all(|state| state.is_served_in_order(silent, rules)) {
                return false;
            }
            let mut after = HashSet::new();
            states.into_iter().for_each(|state| state.go_on(state.waiting, silent, rules, &mut after));
            states = after.into_iter().map(|state| state.lapsed(rules)).collect();
        }
        true
    }

    fn is_served_in_order(mut self, silent: usize, rules: QueueRules) -> bool {
        for _ in 0..self.rounds() {
            let waiting = self.waiting;
            for process in (0..PROCESSES).filter(|process| waiting & 1 << process != 0) {
                self.attempt(process, silent, rules);
            }
            self = self.lapsed(rules);
        }
        self.waiting == 0
    }

    /// How many rounds are enough.
    fn rounds(&self) -> u32 {
        let turns = self.nodes.iter().filter_map(|node| node.turn).fold(0, |all, turn| all | 1_u8 << turn);
        let places = self.nodes.iter().fold(0, |all, node| all | node.queue);
        let gone = !self.waiting;
        self.waiting.count_ones() + (places & gone).count_ones() + (turns & gone).count_ones()
    }

    /// The rest of a round, in which these have not tried yet, in every order.
    fn go_on(self, left: u8, silent: usize, rules: QueueRules, after: &mut HashSet<Self>) {
        if left == 0 {
            after.insert(self);
        }
        for process in (0..PROCESSES).filter(|process| left & 1 << process != 0) {
            let mut next = self;
            next.attempt(process, silent, rules);
            next.go_on(left & !(1 << process), silent, rules, after);
        }
    }

    fn lapsed(mut self, rules: QueueRules) -> Self {
        self.nodes.iter_mut().for_each(|node| node.lapse(rules));
        self
    }

    /// One attempt, and its release.
    fn attempt(&mut self, process: usize, silent: usize, rules: QueueRules) {
        let owner = PROCESSES * TRIES + process;
        let granted = self.is_granted(owner, process, silent, rules);
        let place = if granted { Place::Leave } else { Place::Keep };
        self.waiting &= !(u8::from(granted) << process);
        let answering = self.nodes.iter_mut().enumerate().filter(|(number, _)| *number != silent);
        answering.for_each(|(_, node)| node.release(Some(owner), process, place, rules));
        self.nodes.iter_mut().for_each(|node| node.called = 0);
    }

    fn is_granted(&mut self, owner: usize, process: usize, silent: usize, rules: QueueRules) -> bool {
        let mut decider = Decider::of_attempt(0, 1);
        let mut decisions = VecDeque::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let vote = if number == silent { AcquireVote::NoReply } else { node.acquire(owner, process, rules) };
            decisions.push_back(decider.hear(number, Answer::Acquire(vote), 0));
        }
        while let Some(decision) = decisions.pop_front() {
            match decision {
                Some(Decision::Acquisition(Verdict::Granted { .. })) => return true,
                Some(Decision::Acquisition(Verdict::Confirm { round, token: fence, nodes })) => {
                    for node in nodes {
                        let vote = self.nodes[node].lock.confirm(owner, small(fence), Rules::Shipped);
                        decisions.push_back(decider.hear(node, Answer::Confirm(round, vote), 0));
                    }
                }
                _ => {}
            }
        }
        false
    }
}
