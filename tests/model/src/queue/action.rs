use super::model::QueueModel;
use super::node::{QueuePosition, process_of};
use super::state::{PROCESSES, ProcessPhase, QueueState};
use crate::state::NODES;

/// An action of the model: one step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueAction {
    /// A process begins an attempt.
    Begin {
        /// The process.
        process: usize,
    },
    /// A node executes a request.
    Execute {
        /// The process that sent it.
        process: usize,
        /// The attempt that it belongs to.
        attempt: usize,
        /// The node.
        node: usize,
        /// The request.
        request: QueueRequest,
        /// Whether the reply is delivered. If not, it is lost.
        delivered: bool,
    },
    /// The reply of a node to an acquire times out.
    TimeOut {
        /// The process that awaits it.
        process: usize,
        /// The node.
        node: usize,
    },
    /// An attempt fails, and its process waits.
    Fail {
        /// The process.
        process: usize,
    },
    /// A process releases, gives up or dies.
    Leave {
        /// The process.
        process: usize,
    },
    /// A node executes the request of a process that is gone to leave the queue.
    LeaveQueue {
        /// The process.
        process: usize,
        /// The node.
        node: usize,
    },
    /// A wake-up arrives.
    WakeUp {
        /// The process that receives it.
        process: usize,
        /// The node that sent it.
        node: usize,
    },
    /// A key expires.
    Expire {
        /// The node.
        node: usize,
    },
    /// A reservation passes to the next.
    Pass {
        /// The node.
        node: usize,
    },
    /// A node loses a position in its queue, or removes it because nobody hears.
    LosePosition {
        /// The node.
        node: usize,
        /// The process that had it.
        process: usize,
    },
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueRequest {
    /// Takes the lock.
    Acquire,
    /// Confirms the token proposed in this round.
    Confirm(u8),
    /// Deletes the key, and keeps or leaves the position in the queue.
    Release(QueuePosition),
}

impl QueueModel {
    /// Every action that is possible in a state.
    pub(super) fn enabled_actions(&self, state: &QueueState, actions: &mut Vec<QueueAction>) {
        for process in (0..PROCESSES).filter(|process| self.setting.attempts[*process] > 0) {
            self.process_actions(state, process, actions);
        }
        for (node, target) in state.nodes.iter().enumerate() {
            if let Some(key) = target.lock.key {
                let process = process_of(key.owner);
                let ended = !state.processes[process].is_in(self.attempt_of(state, key.owner));
                if ended || !self.setting.validity_holds {
                    actions.push(QueueAction::Expire { node });
                }
            }
            if target.queue.reservation().is_some() {
                actions.push(QueueAction::Pass { node });
            }
            let may_lose = state.lost_positions < self.setting.lost_positions;
            for process in (0..PROCESSES).filter(|process| may_lose && target.queue.has(*process)) {
                actions.push(QueueAction::LosePosition { node, process });
            }
        }
    }

    fn process_actions(&self, state: &QueueState, index: usize, actions: &mut Vec<QueueAction>) {
        let process = &state.processes[index];
        match &process.phase {
            ProcessPhase::Waiting => {
                if process.attempts_begun < self.setting.attempts[index] {
                    actions.push(QueueAction::Begin { process: index });
                }
                for node in
                    (0..NODES).filter(|node| self.setting.wakeups && state.nodes[*node].wakeups & 1 << index != 0)
                {
                    actions.push(QueueAction::WakeUp { process: index, node });
                }
            }
            ProcessPhase::Acquiring(attempt) => {
                actions.push(QueueAction::Fail { process: index });
                if !attempt.decider.is_gathering() {
                    let awaited = (0..NODES).filter(|node| attempt.awaited.contains(*node));
                    actions.extend(awaited.map(|node| QueueAction::TimeOut { process: index, node }));
                }
            }
            ProcessPhase::Gone => {
                actions.extend((0..NODES).map(|node| QueueAction::LeaveQueue { process: index, node }));
            }
            ProcessPhase::Holding => {}
        }
        if process.phase != ProcessPhase::Gone {
            actions.push(QueueAction::Leave { process: index });
        }
        for attempt in 0..process.attempts_begun {
            for node in 0..NODES {
                self.executions(state, index, attempt, node, actions);
            }
        }
    }

    fn executions(
        &self,
        state: &QueueState,
        process: usize,
        attempt: usize,
        node: usize,
        actions: &mut Vec<QueueAction>,
    ) {
        let sender = &state.processes[process];
        let sent = &sender.sent[attempt];
        let is_current = sender.is_in(attempt);
        let mut execute = |request, delivered| {
            actions.push(QueueAction::Execute { process, attempt, node, request, delivered });
        };
        if let (true, ProcessPhase::Acquiring(current)) = (is_current, &sender.phase) {
            if current.awaited.contains(node) && sent.acquires.contains(node) {
                execute(QueueRequest::Acquire, true);
            }
            let (round, awaited) = current.round;
            if awaited.contains(node) && sent.confirms[usize::from(round) - 1].nodes.contains(node) {
                execute(QueueRequest::Confirm(round), true);
            }
        }
        if is_current || state.late_requests < self.setting.late_requests {
            if sent.acquires.contains(node) {
                execute(QueueRequest::Acquire, false);
            }
            for round in [1, 2] {
                if sent.confirms[usize::from(round) - 1].nodes.contains(node) {
                    execute(QueueRequest::Confirm(round), false);
                }
            }
        }
        if let Some(position) = sent.release {
            execute(QueueRequest::Release(position), false);
        }
    }
}
