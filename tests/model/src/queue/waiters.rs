use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use lock_core::quorum::{AcquireVote, Step as Verdict};
use stateright::{Model, Property};

use super::calm::Quiet;
use super::master::{Place, key};
use super::setting::{QueueRules, QueueSetting};
use super::state::{Asking, Standing, TRIES, World};
use super::step::{Sent, Step};
use crate::client::small;
use crate::decider::{Decider, Decision};
use crate::nodes::Nodes;
use crate::promise::{EXCLUSIVE, MAJORITY, ORDERED, OWN_KEYS, UNIQUE};
use crate::setting::Rules;
use crate::state::{Answer, NODES};

/// A queue only narrows what nodes grant.
pub const NARROWER: &str = "a node with a queue grants nothing that it would not grant without";
/// Nobody waits for ever.
pub const SERVED: &str = "once it is calm, everyone who waits gets the lock";

/// The model.
#[derive(Clone, Debug)]
pub struct Waiters {
    pub(super) setting: QueueSetting,
    /// The states of calm of which it is known that everyone is served.
    pub(super) served: Arc<Mutex<HashSet<Quiet>>>,
}

impl Waiters {
    /// A model of a setting.
    #[must_use]
    pub fn new(setting: QueueSetting) -> Self {
        Self { setting, served: Arc::default() }
    }

    pub(super) fn owner(&self, process: usize, attempt: usize) -> usize {
        process * TRIES + if self.setting.rules == QueueRules::OneOwner { 0 } else { attempt }
    }

    /// The attempt that an owner id stands for: the latest.
    pub(super) fn attempt_of(&self, world: &World, owner: usize) -> usize {
        match self.setting.rules {
            QueueRules::OneOwner => world.processes[owner / TRIES].tried.saturating_sub(1),
            _ => owner % TRIES,
        }
    }

    fn begin(world: &mut World, process: usize) {
        let floor = world.processes.iter().filter_map(|process| process.token).max().unwrap_or_default();
        let beginner = &mut world.processes[process];
        beginner.tries[beginner.tried].acquires = Nodes::all();
        beginner.tried += 1;
        beginner.heard = Nodes::default();
        beginner.standing = Standing::Asking(Box::new(Asking {
            decider: Decider::of_attempt(0, 1),
            floor,
            granted: Nodes::default(),
            open: Nodes::all(),
            round: (0, Nodes::default()),
        }));
    }

    fn execute(&self, world: &mut World, process: usize, attempt: usize, at: usize, sent: Sent) -> Option<Answer> {
        let (owner, rules) = (self.owner(process, attempt), self.setting.rules);
        let present = world.processes[process].is_in(attempt);
        let (master, of) = (&mut world.nodes[at], &mut world.processes[process].tries[attempt]);
        let (before, mut without) = (*master, master.lock);
        let answer = match sent {
            Sent::Acquire => {
                of.acquires.remove(at);
                let vote = master.acquire(owner, process, rules);
                let plain = without.acquire(key(owner), without.epoch, 0, 1);
                let granted = matches!(vote, AcquireVote::Granted { .. });
                world.wider |= granted && (plain != Some(vote) || without != master.lock);
                world.wider |= !granted && master.lock != before.lock;
                Some(Answer::Acquire(vote))
            }
            Sent::Confirm(round) => {
                let confirm = &mut of.confirms[usize::from(round) - 1];
                confirm.nodes.remove(at);
                Some(Answer::Confirm(round, master.lock.confirm(owner, confirm.fence, Rules::Shipped)))
            }
            Sent::Release(place) => {
                master.release(Some(owner), process, place, rules);
                without.release(owner, Rules::Shipped);
                world.wider |= without != master.lock;
                None
            }
        };
        let others = before.lock.key.is_some_and(|held| held.owner != owner);
        world.trespass |= others && master.lock.key != before.lock.key;
        world.late += u8::from(!present && *master != before && !matches!(sent, Sent::Release(_)));
        answer
    }

    fn hear(&self, world: &mut World, process: usize, node: usize, answer: Answer) {
        let Some(asking) = world.processes[process].asking() else { return };
        match answer {
            Answer::Acquire(vote) => {
                if vote == crate::node::HELD && asking.decider.is_gathering() {
                    return;
                }
                asking.open.remove(node);
                if matches!(vote, AcquireVote::Granted { .. }) {
                    asking.granted.insert(node);
                }
            }
            _ => asking.round.1.remove(node),
        }
        let Some(Decision::Acquisition(verdict)) = asking.decider.hear(node, answer, 0) else { return };
        match verdict {
            Verdict::Confirm { round, token: fence, nodes } => {
                if asking.round.0 != round {
                    asking.round = (round, Nodes::default());
                }
                nodes.iter().for_each(|node| asking.round.1.insert(*node));
                let sender = &mut world.processes[process];
                let confirm = &mut sender.tries[sender.tried - 1].confirms[usize::from(round) - 1];
                confirm.fence = small(fence);
                nodes.into_iter().for_each(|node| confirm.nodes.insert(node));
            }
            Verdict::Granted { token, .. } => {
                let token = small(token);
                world.disorder |= token <= asking.floor;
                world.minority |= !asking.granted.are_majority();
                world.processes[process].token = Some(token);
                world.processes[process].standing = Standing::Holding;
            }
            Verdict::Failed(_) => Self::end(world, process, Standing::Waiting),
            Verdict::Wait => {}
        }
    }

    /// An attempt ends, or the lease that came of it, and its release is sent.
    fn end(world: &mut World, process: usize, then: Standing) {
        let ended = &mut world.processes[process];
        let place = match ended.standing {
            Standing::Holding => Some(Place::Leave),
            Standing::Asking(_) if then == Standing::Gone => Some(Place::Leave),
            Standing::Asking(_) => Some(Place::Keep),
            Standing::Waiting | Standing::Gone => None,
        };
        if let (Some(place), Some(last)) = (place, ended.tried.checked_sub(1)) {
            ended.tries[last].ended = Some(place);
        }
        ended.standing = then;
        ended.heard = Nodes::default();
    }

    fn call(&self, world: &mut World, process: usize, node: usize) {
        let called = &mut world.processes[process];
        called.heard.insert(node);
        if self.setting.rules == QueueRules::CallIsAVote && called.heard.are_majority() {
            called.standing = Standing::Holding;
            world.minority = true;
        }
    }

    /// Drops what can not matter any more.
    fn tidy(&self, world: &mut World) {
        for process in &mut world.processes {
            for number in 0..process.tried {
                if process.is_in(number) && process.standing != Standing::Holding {
                    continue;
                }
                let attempt = &mut process.tries[number];
                if world.late == self.setting.late && attempt.ended.is_some() {
                    attempt.acquires = Nodes::default();
                    attempt.confirms = Default::default();
                }
                for confirm in &mut attempt.confirms {
                    let past = (0..NODES).filter(|node| world.nodes[*node].lock.fence >= confirm.fence);
                    past.for_each(|node| confirm.nodes.remove(node));
                    if confirm.nodes == Nodes::default() {
                        *confirm = Default::default();
                    }
                }
            }
        }
        if !self.setting.calls {
            world.nodes.iter_mut().for_each(|node| node.called = 0);
        }
    }
}

impl Model for Waiters {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::default();
        let absent = world.processes.iter_mut().zip(self.setting.tries).filter(|(_, tries)| *tries == 0);
        absent.for_each(|(process, _)| process.standing = Standing::Gone);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.steps(world, steps);
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        match step {
            Step::Begin { process } => Self::begin(&mut world, process),
            Step::Execute { process, attempt, node, sent, heard } => {
                let answer = self.execute(&mut world, process, attempt, node, sent);
                if let Some(answer) = answer.filter(|_| heard) {
                    self.hear(&mut world, process, node, answer);
                }
            }
            Step::GiveUp { process, node } => {
                self.hear(&mut world, process, node, Answer::Acquire(AcquireVote::NoReply));
            }
            Step::Fail { process } => Self::end(&mut world, process, Standing::Waiting),
            Step::Leave { process } => Self::end(&mut world, process, Standing::Gone),
            Step::GivePlaceUp { process, node } => {
                world.nodes[node].release(None, process, Place::Leave, self.setting.rules);
            }
            Step::Call { process, node } => self.call(&mut world, process, node),
            Step::Expire { node } => world.nodes[node].lock.key = None,
            Step::Lapse { node } => world.nodes[node].lapse(self.setting.rules),
            Step::LosePlace { node, process } => {
                world.nodes[node].queue &= !(1 << process);
                world.lost += 1;
            }
        }
        self.tidy(&mut world);
        let world = world.representative();
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(UNIQUE, |_, world| {
                let mut given = HashSet::new();
                world.processes.iter().filter_map(|process| process.token).all(|token| given.insert(token))
            }),
            Property::<Self>::always(ORDERED, |_, world| !world.disorder),
            Property::<Self>::always(MAJORITY, |_, world| !world.minority),
            Property::<Self>::always(OWN_KEYS, |_, world| !world.trespass),
            Property::<Self>::always(NARROWER, |_, world| !world.wider),
            Property::<Self>::always(SERVED, Waiters::everyone_is_served),
        ];
        if self.setting.valid {
            properties.push(Property::<Self>::always(EXCLUSIVE, |_, world| {
                world.processes.iter().filter(|process| process.standing == Standing::Holding).count() <= 1
            }));
        }
        properties
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.nodes.iter().all(|node| node.lock.fence <= self.setting.highest)
    }
}
