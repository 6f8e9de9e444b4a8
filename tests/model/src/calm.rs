//! No deadlock: from any state, once it is calm, a new attempt gets the lock.
//!
//! Calm means that all keys that have an end have ended, that no old message comes, and that a majority of nodes answers. Old
//! messages that come before it is calm lead to states of their own, from which this is asked again.

use std::collections::VecDeque;

use lock_core::quorum::{AcquireVote, Step};

use super::client::small;
use super::decider::{Decider, Decision};
use super::locks::Locks;
use super::state::{Answer, CLIENTS, Key, NODES, Node, Phase, State};

/// Whether, whichever minority does not answer, the attempt is granted.
pub(super) fn leads_to_a_grant(locks: &Locks, state: &State) -> bool {
    let mut nodes = state.nodes;
    for client in state.clients.iter().enumerate().filter(|(_, client)| client.phase == Phase::Over) {
        nodes.iter_mut().for_each(|node| node.release(locks.owner(client.0), locks.setting.rules));
    }
    nodes.iter_mut().for_each(|node| node.pass_time(u8::MAX, locks.setting.rules));
    (0..=NODES).all(|silent| is_granted(locks, state, nodes, silent))
}

fn is_granted(locks: &Locks, state: &State, mut nodes: [Node; NODES], silent: usize) -> bool {
    let rules = locks.setting.rules;
    let key = Key { owner: CLIENTS, expires: u8::MAX };
    let hint = if locks.setting.time.is_some() { locks.setting.clock(state.now + 1) } else { 0 };
    let mut decider = Decider::of_attempt(locks.setting.ttl(), 1);
    let mut decisions = VecDeque::new();
    for (number, node) in nodes.iter_mut().enumerate() {
        let vote = if number == silent { None } else { node.acquire(key, node.epoch, hint, 1) };
        decisions.push_back(decider.hear(number, Answer::Acquire(vote.unwrap_or(AcquireVote::NoReply)), 0));
    }
    while let Some(decision) = decisions.pop_front() {
        match decision {
            Some(Decision::Acquisition(Step::Granted { .. })) => return true,
            Some(Decision::Acquisition(Step::Confirm { round, token: fence, nodes: asked })) => {
                for node in asked {
                    let vote = nodes[node].confirm(CLIENTS, small(fence), rules);
                    decisions.push_back(decider.hear(node, Answer::Confirm(round, vote), 0));
                }
            }
            _ => {}
        }
    }
    false
}
