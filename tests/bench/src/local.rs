//! No Redis at all: what does the engine itself cost?

use std::time::Instant;

use lock_core::LockManager;

use super::row::{Row, Unit};
use super::{Failure, Plan, fresh};

const PART: &str = "memory";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (rounds, cycles) = plan.pick((11, 5_000), (5, 1_000));
    let locks = LockManager::in_memory();
    let mut times = Vec::new();
    // The first round warms up.
    for round in 0..=rounds {
        let mean = tokio::spawn(cycle(locks.clone(), cycles)).await??;
        if round > 0 {
            times.push(mean);
        }
    }
    let row = Row::new(PART, "in-memory manager, lock + unlock, mean of a round", Unit::Seconds, &times);
    Ok(vec![row.at_most(10e-6).note("five masters in memory, release awaited")])
}

/// The mean time of a cycle.
async fn cycle(locks: LockManager, cycles: u32) -> Result<f64, Failure> {
    let key = fresh("memory");
    let began = Instant::now();
    for _ in 0..cycles {
        locks.lock(&key).acquire().await?.release().await?;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(cycles))
}
