//! A load: tasks that lock and unlock for a while.

use std::time::Duration;

use lock_core::LockError;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::BoxError;
use super::contender::Locks;
use lock_support::Dice;

/// What the tasks do.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) tasks: usize,
    pub(super) length: Duration,
    pub(super) resources: Resources,
    pub(super) release: Release,
    /// How long they work while they hold the lock.
    pub(super) inside: Duration,
}

/// What they lock.
#[derive(Clone, Debug)]
pub(super) enum Resources {
    /// The same resource for all.
    One(String),
    /// Several resources for each task, one after the other, so that no cycle waits for the release of an earlier one.
    Distinct(String),
    /// A random one of this many.
    Any(String, usize),
}

/// How they release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    Awaited,
    Background,
}

/// What the tasks achieved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LoadResult {
    pub(super) cycles: u64,
    pub(super) seconds: f64,
    /// The longest time that a task waited for a lock, including waits that the end of the load cut short.
    pub(super) longest_wait: f64,
    pub(super) failures: u64,
    /// How many of the failures were callers that were told that there is no quorum.
    pub(super) no_quorum: u64,
}

impl Load {
    /// Runs it to its end. Acquisitions that still wait then are dropped.
    pub(super) async fn run(&self, locks: &Locks) -> Result<LoadResult, BoxError> {
        let started = Instant::now();
        let until = started + self.length;
        let mut tasks = JoinSet::new();
        for task in 0..self.tasks {
            tasks.spawn(work(locks.clone(), self.clone(), task, until));
        }
        let mut all = LoadResult { seconds: self.length.as_secs_f64(), ..LoadResult::default() };
        while let Some(done) = tasks.join_next().await {
            all.add(&done?);
        }
        Ok(all)
    }
}

impl LoadResult {
    pub(super) fn per_second(&self) -> f64 {
        self.cycles as f64 / self.seconds
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.failures += other.failures;
        self.no_quorum += other.no_quorum;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

impl Resources {
    fn name(&self, task: usize, cycle: u64, dice: &mut Dice) -> String {
        match self {
            Self::One(name) => name.clone(),
            Self::Distinct(stem) => format!("{stem}-{task}-{}", cycle % 16),
            Self::Any(stem, count) => format!("{stem}-{}", dice.index(*count)),
        }
    }
}

async fn work(locks: Locks, load: Load, task: usize, until: Instant) -> LoadResult {
    let mut done = LoadResult::default();
    let mut dice = Dice::new(task as u64 + 1);
    while Instant::now() < until {
        let name = load.resources.name(task, done.cycles, &mut dice);
        let asked = Instant::now();
        let held = timeout_at(until, locks.lock(&name)).await;
        done.longest_wait = done.longest_wait.max(asked.elapsed().as_secs_f64());
        let released = match held {
            // The time is over.
            Err(_) => break,
            Ok(Err(error)) => {
                let error = error.downcast_ref::<LockError>();
                done.no_quorum += u64::from(matches!(error, Some(LockError::NoQuorum { .. })));
                Err(())
            }
            Ok(Ok(held)) => {
                if !load.inside.is_zero() {
                    sleep(load.inside).await;
                }
                match load.release {
                    Release::Awaited => held.release().await.map_err(drop),
                    Release::Background => {
                        held.release_in_background();
                        Ok(())
                    }
                }
            }
        };
        if released.is_ok() {
            done.cycles += u64::from(Instant::now() <= until);
        } else {
            done.failures += 1;
            sleep(Duration::from_millis(1)).await;
        }
    }
    done
}
