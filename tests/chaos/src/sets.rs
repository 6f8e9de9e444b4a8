//! A task that takes several locks at once, and what the histories say of that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lock_core::{Kind, LockError, SetGuard};
use tokio::time::timeout;

use super::cycle::Cycle;
use super::history::{Event, Record};
use super::holding::{Holding, outcome};
use super::service::Shared;
use super::windows::Window;
use super::worker::{Worker, kind};
use super::{QUICK_RESOURCE, RESOURCES, resource};
use lock_history::{Moment, SetSeen};
use lock_support::Dice;

/// The names of a set, with those that it reads only. Not the quick resource: a set keeps some of its locks while it waits for the others.
fn draw(dice: &mut Dice) -> (Vec<String>, Vec<String>) {
    let names = (0..RESOURCES).filter(|index| *index != QUICK_RESOURCE).map(resource);
    let which = dice.roll(4);
    let (reads, writes) = (0..).zip(names).partition::<Vec<_>, _>(|(index, _)| which & (1 << index) != 0);
    let names = |of: Vec<(u64, String)>| of.into_iter().map(|(_, name)| name).collect();
    (names(writes), names(reads))
}

impl Worker {
    /// Acquires a set, writes what it may write and looks at the rest.
    pub(super) async fn set(&mut self, cycle: &Cycle) -> Result<(), LockError> {
        let (shared, attempt, dice) = self.parts();
        let (writes, reads) = draw(dice);
        let (journal, resources) = (&shared.journal, [writes.clone(), reads.clone()].concat());
        journal.write(Event::SetAttempt { attempt, resources, wait: cycle.wait });
        let acquiring = cycle.apply_to_set(shared.locks.lock_all(&writes).read(&reads)).acquire();
        match timeout(cycle.dropped_after, acquiring).await {
            Ok(Ok(guard)) => SetHolding::granted(shared, attempt, &guard).work(cycle, guard).await,
            Ok(Err(error)) => {
                let resource = writes.first().or(reads.first()).cloned().unwrap_or_default();
                journal.write(Event::Rejected { attempt, resource, kind: kind(&error).to_owned() });
                return Err(error);
            }
            Err(_) => journal.write(Event::Dropped { attempt }),
        }
        Ok(())
    }
}

/// A set that is held.
struct SetHolding<'a> {
    members: Vec<Holding<'a>>,
    is_lost: bool,
}

impl<'a> SetHolding<'a> {
    fn granted(shared: &'a Arc<Shared>, attempt: u64, guard: &SetGuard) -> Self {
        let members = guard.iter().map(|lease| Holding::granted(shared, lease.clone(), attempt)).collect();
        Self { members, is_lost: false }
    }

    async fn work(mut self, cycle: &Cycle, guard: SetGuard) {
        for member in 0..self.members.len() {
            let holding = &mut self.members[member];
            if holding.lease().kind() == Kind::Read {
                holding.look(cycle.work).await;
            } else {
                holding.update(cycle.work, cycle.ignores_loss).await;
            }
            self.poll();
        }
        for holding in &self.members {
            holding.record(|attempt, resource| Event::Releasing { attempt, resource });
        }
        let outcome = outcome(&guard.release().await);
        for holding in &self.members {
            let outcome = outcome.clone();
            holding.record(|attempt, resource| Event::Released { attempt, resource, outcome });
        }
    }

    /// As soon as one lock is seen to be lost, all are: looks at them twice.
    fn poll(&mut self) {
        self.members.iter_mut().for_each(Holding::poll);
        if self.is_lost || !self.members.iter().any(Holding::is_lost) {
            return;
        }
        self.is_lost = true;
        let twice = self.members.iter().chain(&self.members);
        let valid = std::iter::once(false).chain(twice.map(|member| member.lease().is_valid())).collect();
        self.members[0].record(|attempt, _| Event::SetLost { attempt, valid });
        self.members.iter_mut().for_each(Holding::poll);
    }
}

/// What the callers of the sets in the history of one process saw.
pub(super) fn sets(history: &[Record]) -> Vec<SetSeen> {
    let mut sets: BTreeMap<u64, SetSeen> = BTreeMap::new();
    let mut granted: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for Record { event, .. } in history {
        match event {
            Event::SetAttempt { attempt, resources, .. } => {
                let caller = format!("attempt {attempt} of {:?}", history.first().map(|first| &first.event));
                let wanted = resources.iter().cloned().collect();
                sets.insert(*attempt, SetSeen { caller, wanted, ..SetSeen::default() });
            }
            Event::Granted { attempt, resource, .. } => {
                _ = granted.entry(*attempt).or_default().insert(resource.clone());
            }
            // From then on, all that was granted is recorded: the process may have been killed while it did that.
            Event::Wrote { attempt, .. } | Event::Looked { attempt, .. } => {
                if let Some((set, granted)) = sets.get_mut(attempt).zip(granted.get(attempt)) {
                    set.granted.clone_from(granted);
                }
            }
            Event::SetLost { attempt, valid } => {
                if let Some(set) = sets.get_mut(attempt) {
                    set.valid.clone_from(valid);
                }
            }
            _ => {}
        }
    }
    sets.into_values().collect()
}

/// When a set may have held which locks while it was being acquired: a set that waits for one of its locks keeps those before it, and
/// records nothing of that.
pub(super) fn gathering(history: &[Record]) -> Vec<(String, Window)> {
    let mut open: Vec<(u64, Moment, &Vec<String>)> = Vec::new();
    let mut gathering = Vec::new();
    let mut end = |(_, from, resources): (u64, Moment, &Vec<String>), to: Moment| {
        gathering.extend(resources.iter().map(|resource| (resource.clone(), Window { from, to })));
    };
    for Record { at, event } in history {
        match event {
            Event::SetAttempt { attempt, resources, .. } => open.push((*attempt, *at, resources)),
            Event::Granted { attempt, .. } | Event::Rejected { attempt, .. } | Event::Dropped { attempt } => {
                let ended = open.extract_if(.., |(number, ..)| number == attempt);
                ended.for_each(|attempt| end(attempt, *at));
            }
            _ => {}
        }
    }
    let last = history.last().map_or(Moment(0), |record| record.at);
    open.into_iter().for_each(|attempt| end(attempt, last));
    gathering
}
