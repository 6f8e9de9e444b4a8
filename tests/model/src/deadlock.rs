//! Freedom from deadlock: from every state, a new attempt acquires the lock once faults stop.
//!
//! Once faults stop, all keys that can expire have expired, no old request arrives, and a majority of nodes replies. Old
//! requests that arrive before that lead to states of their own, in which the property is checked again.

use std::collections::VecDeque;

use lock_core::quorum::{AcquireVote, Step};

use super::client::to_u8;
use super::decider::{Decider, Decision};
use super::model::LockModel;
use super::state::{CLIENTS, Key, NODES, Node, Phase, State, Vote};

/// Whether a new attempt is granted, whichever node does not reply.
pub(super) fn is_deadlock_free(locks: &LockModel, state: &State) -> bool {
    let mut nodes = state.nodes;
    for client in state.clients.iter().enumerate().filter(|(_, client)| client.phase == Phase::Ended) {
        nodes.iter_mut().for_each(|node| node.release(locks.owner(client.0), locks.setting.mutant));
    }
    nodes.iter_mut().for_each(|node| node.pass_time(u8::MAX, locks.setting.mutant));
    (0..=NODES).all(|silent| is_granted(locks, nodes, silent))
}

fn is_granted(locks: &LockModel, mut nodes: [Node; NODES], silent: usize) -> bool {
    let mutant = locks.setting.mutant;
    let key = Key { owner: CLIENTS, expires: u8::MAX };
    let mut decider = Decider::of_attempt(locks.setting.ttl(), 1);
    let mut decisions = VecDeque::new();
    for (index, node) in nodes.iter_mut().enumerate() {
        let vote = if index == silent { None } else { node.acquire(key, node.epoch, 1, mutant) };
        decisions.push_back(decider.receive(index, Vote::Acquire(vote.unwrap_or(AcquireVote::NoReply)), 0));
    }
    while let Some(decision) = decisions.pop_front() {
        match decision {
            Some(Decision::Acquisition(Step::Granted { .. })) => return true,
            Some(Decision::Acquisition(Step::Confirm { round, token, nodes: confirming })) => {
                for node in confirming {
                    let vote = nodes[node].confirm(CLIENTS, to_u8(token), mutant);
                    decisions.push_back(decider.receive(node, Vote::Confirm(round, vote), 0));
                }
            }
            _ => {}
        }
    }
    false
}
