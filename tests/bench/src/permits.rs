//! Permits of one resource, wanted by many processes: how close do they come to slots that are never free?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_core::{LockError, LockManager};
use lock_support::RedisCluster;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::row::{Row, Unit};
use super::{BoxError, Plan, fresh};

const PART: &str = "permits";
const HOLD: Duration = Duration::from_millis(50);
const WAIT: Duration = Duration::from_secs(60);

/// Processes, each with connections of its own, and how many tasks each has.
const CROWDS: [(u32, u32); 2] = [(6, 3), (64, 1)];

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (masters, crowds, permits, length) = plan.pick(
        (&[1, 3, 5][..], &CROWDS[..], &[2, 5, 16][..], Duration::from_secs(4)),
        (&[5][..], &CROWDS[..1], &[2, 5][..], Duration::from_secs(2)),
    );
    let mut rows = Vec::new();
    for masters in masters {
        let cluster = RedisCluster::start(*masters).await;
        for (processes, tasks) in crowds {
            let managers =
                futures_util::future::try_join_all((0..*processes).map(|_| cluster.builder().wait(WAIT).connect()))
                    .await?;
            for permits in permits {
                let callers = processes * tasks;
                // More callers than slots, or nobody waits.
                if callers > *permits {
                    let crowd = Crowd { managers: &managers, tasks: *tasks, permits: *permits };
                    rows.extend(
                        crowd.measure(&format!("{masters} masters, {processes} processes x {tasks}"), length).await?,
                    );
                }
            }
        }
    }
    Ok(rows)
}

struct Crowd<'a> {
    managers: &'a [LockManager],
    tasks: u32,
    permits: u32,
}

impl Crowd<'_> {
    async fn measure(&self, what: &str, length: Duration) -> Result<Vec<Row>, BoxError> {
        let ideal = self.sleepers(length).await?;
        let (grants, longest) = self.callers(length).await?;
        let callers = u32::try_from(self.managers.len())? * self.tasks;
        let ideal_wait = (HOLD * callers / self.permits).as_secs_f64();
        let figure = format!("{what}, {} permits, 50 ms inside", self.permits);
        let least = if self.permits == 2 { 0.75 } else { 0.7 };
        Ok(vec![
            Row::new(PART, format!("{figure}: grants"), Unit::PerSecond, &[grants])
                .against(format!("{} tasks that only sleep", self.permits), &[grants], &[ideal])
                .at_least(least),
            Row::new(PART, format!("{figure}: longest wait, in mean waits"), Unit::Number, &[longest / ideal_wait])
                .at_most(2.0),
        ])
    }

    /// How often as many tasks sleep as there are permits, each one after another: what no lock exceeds.
    async fn sleepers(&self, length: Duration) -> Result<f64, BoxError> {
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        for _ in 0..self.permits {
            tasks.spawn(async move {
                let mut slept = 0_u32;
                while began.elapsed() < length {
                    sleep(HOLD).await;
                    slept += 1;
                }
                slept
            });
        }
        let mut slept = 0;
        while let Some(of_task) = tasks.join_next().await {
            slept += of_task?;
        }
        Ok(f64::from(slept) / began.elapsed().as_secs_f64())
    }

    /// The permits that are granted in a second, and the longest wait for one in seconds.
    async fn callers(&self, length: Duration) -> Result<(f64, f64), BoxError> {
        let (over, resource, permits) = (Arc::new(AtomicBool::new(false)), fresh("permits"), self.permits);
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        for locks in self.managers.iter().flat_map(|locks| (0..self.tasks).map(move |_| locks.clone())) {
            let (over, resource) = (Arc::clone(&over), resource.clone());
            tasks.spawn(async move {
                let (mut grants, mut longest) = (0_u32, Duration::ZERO);
                while !over.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let permit = locks.permits(&*resource, permits).acquire().await?;
                    longest = longest.max(asked.elapsed());
                    grants += u32::from(!over.load(Ordering::Relaxed));
                    sleep(HOLD).await;
                    permit.release().await?;
                }
                Ok::<_, LockError>((grants, longest))
            });
        }
        sleep(length).await;
        over.store(true, Ordering::Relaxed);
        let seconds = began.elapsed().as_secs_f64();
        let (mut grants, mut longest) = (0, Duration::ZERO);
        while let Some(of_task) = tasks.join_next().await {
            let (of_task, waited) = of_task??;
            (grants, longest) = (grants + of_task, longest.max(waited));
        }
        Ok((f64::from(grants) / seconds, longest.as_secs_f64()))
    }
}
