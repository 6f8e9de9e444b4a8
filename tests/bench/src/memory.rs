//! No Redis: the cost of the engine itself.

use std::time::Instant;

use lock_core::LockManager;

use super::row::{Row, Unit};
use super::{BoxError, Plan, fresh};

const PART: &str = "memory";

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
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
async fn cycle(locks: LockManager, cycles: u32) -> Result<f64, BoxError> {
    let resource = fresh("memory");
    let began = Instant::now();
    for _ in 0..cycles {
        locks.lock(&resource).acquire().await?.release().await?;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(cycles))
}
