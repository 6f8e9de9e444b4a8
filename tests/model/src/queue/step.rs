use super::master::{Place, process_of};
use super::setting::QueueRules;
use super::state::{PROCESSES, Standing, World};
use super::waiters::Waiters;
use crate::state::NODES;

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A process begins an attempt.
    Begin {
        /// Which.
        process: usize,
    },
    /// A message is executed.
    Execute {
        /// Whose.
        process: usize,
        /// Of which of its attempts.
        attempt: usize,
        /// Where.
        node: usize,
        /// Which.
        sent: Sent,
        /// Whether the answer is heard.
        heard: bool,
    },
    /// An attempt gives a node up.
    GiveUp {
        /// Whose.
        process: usize,
        /// Which node.
        node: usize,
    },
    /// An attempt fails, and the process waits.
    Fail {
        /// Whose.
        process: usize,
    },
    /// A process lets go, gives up, or dies.
    Leave {
        /// Which.
        process: usize,
    },
    /// The word of a process that is gone, that its place is given up, comes.
    GivePlaceUp {
        /// Whose.
        process: usize,
        /// Where.
        node: usize,
    },
    /// A call comes.
    Call {
        /// To whom.
        process: usize,
        /// Of which node.
        node: usize,
    },
    /// A key ends.
    Expire {
        /// Where.
        node: usize,
    },
    /// A turn lapses.
    Lapse {
        /// Where.
        node: usize,
    },
    /// A place in a queue is lost.
    LosePlace {
        /// Where.
        node: usize,
        /// Whose.
        process: usize,
    },
}

/// A message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Acquire.
    Acquire,
    /// The confirm of this round.
    Confirm(u8),
    /// Release, and what becomes of the place.
    Release(Place),
}

impl Waiters {
    /// All that can happen next.
    pub(super) fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        for process in (0..PROCESSES).filter(|process| self.setting.tries[*process] > 0) {
            self.steps_of(world, process, steps);
        }
        for (node, master) in world.nodes.iter().enumerate() {
            if let Some(key) = master.lock.key {
                let process = process_of(key.owner);
                let ended = !world.processes[process].is_in(self.attempt_of(world, key.owner));
                if ended || !self.setting.valid {
                    steps.push(Step::Expire { node });
                }
            }
            if master.turn.is_some() && self.setting.rules != QueueRules::TurnWithoutEnd {
                steps.push(Step::Lapse { node });
            }
            let may_lose = world.lost < self.setting.lost;
            for process in (0..PROCESSES).filter(|process| may_lose && master.queue & 1 << process != 0) {
                steps.push(Step::LosePlace { node, process });
            }
        }
    }

    fn steps_of(&self, world: &World, number: usize, steps: &mut Vec<Step>) {
        let process = &world.processes[number];
        match &process.standing {
            Standing::Waiting => {
                if process.tried < self.setting.tries[number] {
                    steps.push(Step::Begin { process: number });
                }
                for node in (0..NODES).filter(|node| self.setting.calls && world.nodes[*node].called & 1 << number != 0)
                {
                    steps.push(Step::Call { process: number, node });
                }
            }
            Standing::Asking(asking) => {
                steps.push(Step::Fail { process: number });
                if !asking.decider.is_gathering() {
                    let open = (0..NODES).filter(|node| asking.open.contains(*node));
                    steps.extend(open.map(|node| Step::GiveUp { process: number, node }));
                }
            }
            Standing::Gone => steps.extend((0..NODES).map(|node| Step::GivePlaceUp { process: number, node })),
            Standing::Holding => {}
        }
        if process.standing != Standing::Gone {
            steps.push(Step::Leave { process: number });
        }
        for attempt in 0..process.tried {
            for node in 0..NODES {
                self.executions(world, number, attempt, node, steps);
            }
        }
    }

    fn executions(&self, world: &World, process: usize, attempt: usize, node: usize, steps: &mut Vec<Step>) {
        let sender = &world.processes[process];
        let present = sender.is_in(attempt);
        let Standing::Asking(asking) = &sender.standing else {
            return self.unheard(world, process, attempt, node, steps);
        };
        let mut heard = |sent| steps.push(Step::Execute { process, attempt, node, sent, heard: true });
        if present && asking.open.contains(node) && sender.tries[attempt].acquires.contains(node) {
            heard(Sent::Acquire);
        }
        let (round, waits) = asking.round;
        if present
            && waits.contains(node)
            && sender.tries[attempt].confirms[usize::from(round) - 1].nodes.contains(node)
        {
            heard(Sent::Confirm(round));
        }
        self.unheard(world, process, attempt, node, steps);
    }

    fn unheard(&self, world: &World, process: usize, attempt: usize, node: usize, steps: &mut Vec<Step>) {
        let (sender, of) = (&world.processes[process], world.processes[process].tries[attempt]);
        let mut unheard = |sent| steps.push(Step::Execute { process, attempt, node, sent, heard: false });
        if sender.is_in(attempt) || world.late < self.setting.late {
            if of.acquires.contains(node) {
                unheard(Sent::Acquire);
            }
            for round in [1, 2] {
                if of.confirms[usize::from(round) - 1].nodes.contains(node) {
                    unheard(Sent::Confirm(round));
                }
            }
        }
        if let Some(place) = of.ended {
            unheard(Sent::Release(place));
        }
    }
}
