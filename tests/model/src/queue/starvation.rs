//! Freedom from starvation: from every state, everyone who waits acquires the lock once faults stop.
//!
//! Once faults stop, holders release and attempts in progress fail, keys and reservations expire, no old request and no
//! wake-up arrives, and a majority of nodes replies. Only the timers are left: in each round, everyone who waits makes an
//! attempt, and reservations lapse between two rounds.
//!
//! The order of the attempts in a round is random. The first [`UNORDERED_ROUNDS`] rounds are explored in every order. From
//! every state that these lead to, rounds in the order of the queue must serve everyone. They may take as many rounds as
//! there are waiting processes, plus the positions and reservations of processes that are gone: a dead head of the queue
//! costs one reservation.
//!
//! This assumes that the same unfavourable order is not repeated for ever. If one node does not reply and the other two hold
//! reservations for two different waiters, these could block each other for ever. The timers are random for that reason.

use std::collections::{HashSet, VecDeque};
use std::sync::PoisonError;

use lock_core::quorum::{AcquireVote, Step};

use super::model::QueueModel;
use super::node::{QueueNode, QueuePosition};
use super::setting::QueueMutant;
use super::state::{ATTEMPTS, PROCESSES, ProcessPhase, QueueState};
use crate::client::to_u8;
use crate::decider::{Decider, Decision};
use crate::state::{NODES, Vote};

/// The number of rounds that are explored in every order of attempts.
const UNORDERED_ROUNDS: usize = 2;

/// What is left of a state once faults stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quiescent {
    nodes: [QueueNode; NODES],
    /// The processes that wait, one bit for each.
    waiting: u8,
}

impl QueueModel {
    /// Whether everyone who waits acquires the lock, whichever node does not reply.
    pub(super) fn is_starvation_free(&self, state: &QueueState) -> bool {
        let mutant = self.setting.mutant;
        let mut quiescent = Quiescent { nodes: state.nodes, waiting: 0 };
        for (index, process) in state.processes.iter().enumerate() {
            let position = match process.phase {
                ProcessPhase::Acquiring(_) => QueuePosition::Keep,
                ProcessPhase::Holding => QueuePosition::Leave,
                ProcessPhase::Waiting | ProcessPhase::Gone => continue,
            };
            let owner = process.attempts_begun.checked_sub(1).map(|last| self.owner(index, last));
            quiescent.nodes.iter_mut().for_each(|node| node.release(owner, index, position, mutant));
        }
        for (index, process) in state.processes.iter().enumerate() {
            let waits = matches!(process.phase, ProcessPhase::Waiting | ProcessPhase::Acquiring(_));
            quiescent.waiting |= u8::from(waits) << index;
        }
        for node in &mut quiescent.nodes {
            node.lock.key = None;
            node.wakeups = 0;
        }
        let known = |served: &HashSet<Quiescent>| served.contains(&quiescent);
        if known(&self.served.lock().unwrap_or_else(PoisonError::into_inner)) {
            return true;
        }
        let served = (0..=NODES).all(|silent| quiescent.is_served(silent, mutant));
        if served {
            self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(quiescent);
        }
        served
    }
}

impl Quiescent {
    fn is_served(self, silent: usize, mutant: Option<QueueMutant>) -> bool {
        let mut states = HashSet::from([self]);
        for _ in 0..=UNORDERED_ROUNDS {
            if !states.iter().all(|state| state.is_served_in_order(silent, mutant)) {
                return false;
            }
            let mut after = HashSet::new();
            states.into_iter().for_each(|state| state.try_in_every_order(state.waiting, silent, mutant, &mut after));
            states = after.into_iter().map(|state| state.lapsed(mutant)).collect();
        }
        true
    }

    fn is_served_in_order(mut self, silent: usize, mutant: Option<QueueMutant>) -> bool {
        for _ in 0..self.rounds() {
            let waiting = self.waiting;
            for process in (0..PROCESSES).filter(|process| waiting & 1 << process != 0) {
                self.attempt(process, silent, mutant);
            }
            self = self.lapsed(mutant);
        }
        self.waiting == 0
    }

    /// How many rounds are allowed.
    fn rounds(&self) -> u32 {
        let reservations =
            self.nodes.iter().filter_map(|node| node.reservation).fold(0, |all, reservation| all | 1_u8 << reservation);
        let positions = self.nodes.iter().fold(0, |all, node| all | node.queue);
        let gone = !self.waiting;
        self.waiting.count_ones() + (positions & gone).count_ones() + (reservations & gone).count_ones()
    }

    /// Adds the states after the round, for every order of the attempts that are left.
    fn try_in_every_order(self, left: u8, silent: usize, mutant: Option<QueueMutant>, after: &mut HashSet<Self>) {
        if left == 0 {
            after.insert(self);
        }
        for process in (0..PROCESSES).filter(|process| left & 1 << process != 0) {
            let mut next = self;
            next.attempt(process, silent, mutant);
            next.try_in_every_order(left & !(1 << process), silent, mutant, after);
        }
    }

    fn lapsed(mut self, mutant: Option<QueueMutant>) -> Self {
        self.nodes.iter_mut().for_each(|node| node.lapse(mutant));
        self
    }

    /// One attempt, and its release.
    fn attempt(&mut self, process: usize, silent: usize, mutant: Option<QueueMutant>) {
        let owner = PROCESSES * ATTEMPTS + process;
        let granted = self.is_granted(owner, process, silent, mutant);
        let position = if granted { QueuePosition::Leave } else { QueuePosition::Keep };
        self.waiting &= !(u8::from(granted) << process);
        let replying = self.nodes.iter_mut().enumerate().filter(|(index, _)| *index != silent);
        replying.for_each(|(_, node)| node.release(Some(owner), process, position, mutant));
        self.nodes.iter_mut().for_each(|node| node.wakeups = 0);
    }

    fn is_granted(&mut self, owner: usize, process: usize, silent: usize, mutant: Option<QueueMutant>) -> bool {
        let mut decider = Decider::of_attempt(0, 1);
        let mut decisions = VecDeque::new();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let vote = if index == silent { AcquireVote::NoReply } else { node.acquire(owner, process, mutant) };
            decisions.push_back(decider.receive(index, Vote::Acquire(vote), 0));
        }
        while let Some(decision) = decisions.pop_front() {
            match decision {
                Some(Decision::Acquisition(Step::Granted { .. })) => return true,
                Some(Decision::Acquisition(Step::Confirm { round, token, nodes })) => {
                    for node in nodes {
                        let vote = self.nodes[node].lock.confirm(owner, to_u8(token), None);
                        decisions.push_back(decider.receive(node, Vote::Confirm(round, vote), 0));
                    }
                }
                _ => {}
            }
        }
        false
    }
}
