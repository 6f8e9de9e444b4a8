//! Many tasks that lock and unlock for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::Failure;
use super::contender::Locks;
use lock_support::Dice;

/// What the tasks do.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) tasks: usize,
    pub(super) length: Duration,
    pub(super) keys: Keys,
    pub(super) release: Release,
    /// How long they work with the lock.
    pub(super) inside: Duration,
}

/// What they lock.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// All of them the same.
    One(String),
    /// Each its own; several in turn, so that none waits for its own release.
    Distinct(String),
    /// Any of so many.
    Any(String, usize),
}

/// How they let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    Awaited,
    Background,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) cycles: u64,
    pub(super) seconds: f64,
    /// The longest that any of them waited for a lock, also in vain at the end.
    pub(super) longest_wait: f64,
    pub(super) failures: u64,
}

impl Load {
    /// Runs it to its end. What still waits for a lock then is dropped where it stands.
    pub(super) async fn run(&self, locks: &Locks) -> Result<Done, Failure> {
        let started = Instant::now();
        let until = started + self.length;
        let mut tasks = JoinSet::new();
        for task in 0..self.tasks {
            tasks.spawn(work(locks.clone(), self.clone(), task, until));
        }
        let mut all = Done { seconds: self.length.as_secs_f64(), ..Done::default() };
        while let Some(done) = tasks.join_next().await {
            all.add(&done?);
        }
        Ok(all)
    }
}

impl Done {
    pub(super) fn per_second(&self) -> f64 {
        self.cycles as f64 / self.seconds
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.failures += other.failures;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

impl Keys {
    fn name(&self, task: usize, cycle: u64, dice: &mut Dice) -> String {
        match self {
            Self::One(name) => name.clone(),
            Self::Distinct(stem) => format!("{stem}-{task}-{}", cycle % 16),
            Self::Any(stem, count) => format!("{stem}-{}", dice.index(*count)),
        }
    }
}

async fn work(locks: Locks, load: Load, task: usize, until: Instant) -> Done {
    let mut done = Done::default();
    let mut dice = Dice::new(task as u64 + 1);
    while Instant::now() < until {
        let name = load.keys.name(task, done.cycles, &mut dice);
        let asked = Instant::now();
        let held = timeout_at(until, locks.lock(&name)).await;
        done.longest_wait = done.longest_wait.max(asked.elapsed().as_secs_f64());
        let released = match held {
            // The time is over.
            Err(_) => break,
            Ok(Err(error)) => Err(error),
            Ok(Ok(held)) => {
                if !load.inside.is_zero() {
                    sleep(load.inside).await;
                }
                match load.release {
                    Release::Awaited => held.release().await,
                    Release::Background => {
                        held.let_go();
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
