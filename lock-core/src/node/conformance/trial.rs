use std::fmt::Debug;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::divergence::Divergence;
use super::outcome::{Outcome, Times};
use super::runner::Runner;
use super::side::{Side, fresh_keys};
use super::step::{Step, acquire};
use crate::node::{Kind, NodeError, Operation, Reply};

/// How long something is waited for that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const HELD: Reply = Reply::Held { remaining: None, stranger: false, position: None, offer: None };

/// A node that is admitted, and what it was asked.
pub(super) struct Trial {
    pub(super) side: Side,
    pub(super) ttl: Duration,
    pub(super) steps: Vec<String>,
}

impl Trial {
    pub(super) async fn begin(runner: &Runner<'_>) -> Result<Self, Divergence> {
        let times = Times { ttl: runner.ttl, are_unknown: true };
        let listening = if runner.lacks.listens() { 2 } else { 0 };
        let side = Side::new((runner.node)(), &fresh_keys(), listening, times).await;
        let failed = |error: NodeError| differ(&[], "a node that is ready", error);
        let mut trial = Self { side: side.map_err(failed)?, ttl: runner.ttl, steps: Vec::new() };
        trial.carry_out(&Step::admit()).await;
        Ok(trial)
    }

    pub(super) async fn carry_out(&mut self, step: &Step) -> Outcome {
        self.steps.push(format!("{step:?}"));
        self.side.carry_out(step).await
    }

    pub(super) async fn expect_reply(
        &mut self,
        lock: usize,
        operation: Operation,
        expected: Reply,
    ) -> Result<(), Divergence> {
        let reply = self.ask(1, lock, operation).await?;
        self.check(reply == expected, expected, reply)
    }

    pub(super) async fn ask(&mut self, waiter: u64, lock: usize, operation: Operation) -> Result<Reply, Divergence> {
        let outcome = self.carry_out(&Step::request(waiter, lock, operation)).await;
        if let Outcome::Replied(replies) = &outcome
            && let [Ok(reply)] = replies[..]
        {
            return Ok(reply);
        }
        Err(differ(&self.steps, "a reply", outcome))
    }

    /// Asks again and again, until this reply comes.
    pub(super) async fn until(&mut self, lock: usize, operation: Operation, expected: Reply) -> Result<(), Divergence> {
        let (began, steps) = (Instant::now(), self.steps.len());
        loop {
            let reply = self.ask(1, lock, operation).await?;
            if reply == expected || began.elapsed() > PATIENCE {
                return self.check(reply == expected, expected, reply);
            }
            self.steps.truncate(steps);
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn clock(&self) -> Result<Duration, Divergence> {
        self.side.clock().await.map_err(|error| differ(&self.steps, "an inspection", error))
    }

    pub(super) fn acquire(&self, number: u128, since: u64, kind: Kind) -> Operation {
        acquire(number, NonZeroU64::new(since), 0, kind, self.ttl)
    }

    pub(super) fn lasted(&self, began: Instant, least: Duration) -> Result<(), Divergence> {
        let elapsed = began.elapsed();
        self.check(elapsed >= least, format!("not before {least:?}"), elapsed)
    }

    pub(super) fn check(&self, is_right: bool, rules: impl Debug, node: impl Debug) -> Result<(), Divergence> {
        if is_right { Ok(()) } else { Err(differ(&self.steps, rules, node)) }
    }
}

pub(super) fn differ(steps: &[String], rules: impl Debug, node: impl Debug) -> Divergence {
    Divergence { seed: None, steps: steps.to_vec(), rules: format!("{rules:?}"), node: format!("{node:?}") }
}
