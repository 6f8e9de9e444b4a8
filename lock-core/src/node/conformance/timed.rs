//! What takes time. It is not compared, but held against what the rules say.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::divergence::Divergence;
use super::lack::{Lack, Lacks};
use super::outcome::{Outcome, Times};
use super::run::Runner;
use super::side::{Admission, Keys, Side};
use super::step::{Epochs, FIRST_SLOT, RecordChange, Step, acquire, owner};
use crate::node::{
    EVICTION_GAP, Eviction, Holder, Mode, NodeError, Operation, OwnerId, QueuePosition, RESERVATION_TTL, Reply,
};

/// How long a lock lives whose end is waited for.
const BRIEF: Duration = Duration::from_millis(150);
/// How long something is waited for that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is tried what this machine may be too slow for.
const TRIES: usize = 20;

const HELD: Reply = Reply::Held { remaining: None, stranger: false, position: None };

/// Returns how many of these took too long to tell anything.
pub(super) async fn check(runner: &Runner<'_>) -> Result<usize, Divergence> {
    a_lock_ends_with_its_ttl(Trial::begin(runner).await?).await?;
    let mut cut_short = 0;
    for (lock, mode) in [(0, Mode::Write), (1, Mode::Read), (FIRST_SLOT, Mode::Write)] {
        let evicts = !runner.lacks.has(Lack::Evict);
        cut_short +=
            in_time(evicts, async || nobody_has_an_evicted_lock(Trial::begin(runner).await?, lock, mode).await).await?;
    }
    let passes = async || a_reservation_passes(Trial::begin(runner).await?).await;
    Ok(cut_short + in_time(runner.lacks.listens(), passes).await?)
}

/// Tries until it was in time. Returns 1 if it never was.
async fn in_time(applies: bool, attempt: impl AsyncFn() -> Result<bool, Divergence>) -> Result<usize, Divergence> {
    for _ in 0..TRIES {
        if !applies || attempt().await? {
            return Ok(0);
        }
    }
    Ok(1)
}

/// A node that is admitted, and what it was asked.
struct Trial<'a> {
    side: Side,
    lacks: &'a Lacks,
    ttl: Duration,
    admission: Admission,
    steps: Vec<String>,
}

impl<'a> Trial<'a> {
    async fn begin(runner: &Runner<'a>) -> Result<Self, Divergence> {
        let times = Times { ttl: runner.ttl, are_unknown: true };
        let listening = if runner.lacks.listens() { 2 } else { 0 };
        let side = Side::new((runner.node)(), &Keys::fresh(), listening, times).await;
        let failed = |error: NodeError| differ(&[], &"a node that is ready", &error);
        let (side, admission, steps) = (side.map_err(failed)?, Admission::default(), Vec::new());
        let mut trial = Self { side, lacks: runner.lacks, ttl: runner.ttl, admission, steps };
        let admit = Step::Write(RecordChange::ADMIT);
        let written = trial.carry_out(&admit).await;
        trial.admission = trial.admission.after(&admit, &written);
        Ok(trial)
    }

    async fn carry_out(&mut self, step: &Step) -> Outcome {
        self.steps.push(step.to_string());
        self.side.carry_out(step, self.admission, |operation| operation).await
    }

    async fn expect(&mut self, step: Step, expected: Outcome) -> Result<(), Divergence> {
        let Some(step) = self.lacks.take_out(step) else { return Ok(()) };
        let outcome = self.carry_out(&step).await;
        if outcome == expected { Ok(()) } else { Err(differ(&self.steps, &expected, &outcome)) }
    }

    async fn expect_reply(&mut self, lock: usize, operation: Operation, expected: Reply) -> Result<(), Divergence> {
        self.expect(Step::request(1, lock, operation), Outcome::Replied(vec![Ok(expected)])).await
    }

    async fn ask(&mut self, waiter: u64, lock: usize, operation: Operation) -> Result<Reply, Divergence> {
        match self.carry_out(&Step::request(waiter, lock, operation)).await {
            Outcome::Replied(replies) => match replies[..] {
                [Ok(reply)] => Ok(reply),
                _ => Err(differ(&self.steps, &"a reply", &replies)),
            },
            other => Err(differ(&self.steps, &"a reply", &other)),
        }
    }

    /// Asks until the lock is granted.
    async fn until_granted(&mut self, lock: usize, operation: Operation, token: u64) -> Result<(), Divergence> {
        let (began, steps) = (Instant::now(), self.steps.len());
        loop {
            let reply = self.ask(1, lock, operation).await?;
            if reply == (Reply::Granted { token }) {
                return Ok(());
            }
            if !matches!(reply, Reply::Held { .. }) || began.elapsed() > PATIENCE {
                return Err(differ(&self.steps, &Reply::Granted { token }, &reply));
            }
            self.steps.truncate(steps);
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn lasted(&self, began: Instant, least: Duration) -> Result<(), Divergence> {
        let elapsed = began.elapsed();
        if elapsed >= least { Ok(()) } else { Err(differ(&self.steps, &format!("not before {least:?}"), &elapsed)) }
    }
}

fn differ(steps: &[String], rules: &dyn std::fmt::Debug, node: &dyn std::fmt::Debug) -> Divergence {
    Divergence { seed: None, steps: steps.to_vec(), rules: format!("{rules:?}"), node: format!("{node:?}") }
}

/// A lock ends with its `ttl`, and not before; one that was extended lives on.
async fn a_lock_ends_with_its_ttl(mut trial: Trial<'_>) -> Result<(), Divergence> {
    let (ttl, mode) = (trial.ttl, Mode::Write);
    let extend = Operation::Extend { owner: owner(1), ttl };
    let granted = Instant::now();
    for lock in [0, 1] {
        trial.expect_reply(lock, acquire(1, None, 0, mode, BRIEF), Reply::Granted { token: 1 }).await?;
    }
    trial.expect_reply(1, extend, Reply::Kept).await?;
    trial.until_granted(0, acquire(2, None, 0, mode, ttl), 2).await?;
    trial.lasted(granted, BRIEF)?;
    trial.expect_reply(0, extend, Reply::Gone).await?;
    trial.expect_reply(1, acquire(2, None, 0, mode, ttl), HELD).await
}

/// A lock is granted to nobody for a moment when its holder was evicted, also if it is evicted again; and then to others.
/// Returns false if it took so long that the moment may have been over.
async fn nobody_has_an_evicted_lock(mut trial: Trial<'_>, lock: usize, mode: Mode) -> Result<bool, Divergence> {
    let next = Operation::Acquire { owner: owner(3), ttl: trial.ttl, hint: 0, tokens: 1, since: None, mode };
    let evict = |owners, token| Step::Evict { lock, epoch: Epochs::Present, owners, token };
    let evicted = |deleted| Outcome::Evicted(Ok(Eviction::Evicted { deleted }));
    let first = acquire(1, None, 0, mode, trial.ttl);
    trial.expect_reply(lock, first, Reply::Granted { token: 1 }).await?;
    let began = Instant::now();
    trial.expect(evict(vec![owner(1)], 50), evicted(true)).await?;
    if trial.lacks.has(Lack::PromptEviction) {
        trial.until_granted(lock, next, 51).await?;
    } else {
        let meanwhile = async {
            nothing_moves_an_evicted_lock(&mut trial, lock, mode).await?;
            trial.expect(evict(vec![], 60), evicted(false)).await?;
            trial.expect(evict(vec![owner(2)], 70), evicted(false)).await
        };
        let meanwhile = meanwhile.await;
        if began.elapsed() >= EVICTION_GAP {
            return Ok(false);
        }
        meanwhile?;
        trial.until_granted(lock, next, 71).await?;
    }
    trial.lasted(began, EVICTION_GAP)?;
    Ok(true)
}

async fn nothing_moves_an_evicted_lock(trial: &mut Trial<'_>, lock: usize, mode: Mode) -> Result<(), Divergence> {
    let ttl = trial.ttl;
    let acquire = |number, mode| acquire(number, None, 0, mode, ttl);
    let replace = |number| Operation::Replace { owner: owner(number), ttl, token: 9, mode };
    for (operation, expected) in [
        (acquire(1, mode), HELD),
        (acquire(2, Mode::Write), HELD),
        (acquire(3, mode), HELD),
        (replace(1), Reply::Gone),
        (replace(2), Reply::Gone),
        (Operation::Extend { owner: owner(1), ttl }, Reply::Gone),
        (Operation::Confirm { owner: owner(1), token: 99 }, Reply::Refused { fence: 50 }),
        (Operation::Release { owner: owner(1), position: QueuePosition::Leave }, Reply::NotOwner),
    ] {
        trial.expect_reply(lock, operation, expected).await?;
    }
    let Some(look) = trial.lacks.take_out(Step::Look(Epochs::Present)) else { return Ok(()) };
    let looked = trial.carry_out(&look).await;
    let holder = match &looked {
        Outcome::Looked(Ok(states)) => states.get(lock).map(|state| (&state.holder, state.readers.len())),
        _ => None,
    };
    if holder == Some((&Some(Holder::Owner(OwnerId::NOBODY)), 0)) {
        return Ok(());
    }
    Err(differ(&trial.steps, &"nobody as its holder", &looked))
}

/// A free lock is kept for a waiter that does not come, and then for the next: the first comes too late. Returns false if it took so
/// long that the second may have been too late as well.
async fn a_reservation_passes(mut trial: Trial<'_>) -> Result<bool, Divergence> {
    let (lock, ttl) = (1, trial.ttl);
    let acquire = |number, since| acquire(number, NonZeroU64::new(since), 0, Mode::Write, ttl);
    let release = Operation::Release { owner: owner(9), position: QueuePosition::Leave };
    trial.ask(3, lock, acquire(9, 0)).await?;
    for waiter in [1, 2] {
        trial.ask(waiter, lock, acquire(1, waiter)).await?;
    }
    let released = Instant::now();
    trial.ask(3, lock, release).await?;
    sleep_until(Instant::now() + RESERVATION_TTL + Duration::from_millis(5)).await;
    let first = trial.ask(1, lock, acquire(7, 1)).await?;
    let second = trial.ask(2, lock, acquire(8, 2)).await?;
    if released.elapsed() >= 2 * RESERVATION_TTL {
        return Ok(false);
    }
    match (first, second) {
        (Reply::Held { .. }, Reply::Granted { .. }) => Ok(true),
        replies => Err(differ(&trial.steps, &"Held for the first, and Granted for the second", &replies)),
    }
}
