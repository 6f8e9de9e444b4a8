//! Permits of one resource, wanted by many processes: how close do they come to slots that are never free, and to permits that others have?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_core::{LockGuard, LockManager};
use lock_support::RedisCluster;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::row::{Row, Unit};
use super::sorted_set::{SortedSet, SortedSetPermit};
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
            let managers = connect(&cluster, *processes).await?;
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
    rows.extend(beside_a_sorted_set(length).await?);
    Ok(rows)
}

async fn connect(cluster: &RedisCluster, processes: u32) -> Result<Vec<LockManager>, BoxError> {
    let connecting = (0..processes).map(|_| cluster.builder().wait(WAIT).connect());
    Ok(futures_util::future::try_join_all(connecting).await?)
}

/// On one master, where others have permits as well.
async fn beside_a_sorted_set(length: Duration) -> Result<Vec<Row>, BoxError> {
    const PEER: &str = "a sorted set without fences";
    const PERMITS: u32 = 5;

    let (cluster, (processes, tasks)) = (RedisCluster::start(1).await, CROWDS[0]);
    let (managers, resource) = (connect(&cluster, processes).await?, fresh("permits"));
    let sorted_set = (0..processes).map(|_| SortedSet::connect(&cluster.servers[0], &resource, PERMITS));
    let sorted_set = futures_util::future::try_join_all(sorted_set).await?;
    let ours = Crowd { managers: &managers, tasks, permits: PERMITS }.callers(length).await?;
    let peers = load(sorted_set.into_iter().map(Source::SortedSet).collect(), tasks, length).await?;
    let row = |what: &str, unit, ours: f64, peers: f64| {
        let figure = format!("1 masters, {processes} processes x {tasks}, {PERMITS} permits, 50 ms inside: {what}");
        Row::new(PART, figure, unit, &[ours]).against(PEER, &[ours], &[peers])
    };
    Ok(vec![
        row("grants", Unit::PerSecond, ours.grants, peers.grants)
            .failures("ours", ours.failures)
            .failures(PEER, peers.failures),
        row("longest wait", Unit::Seconds, ours.longest, peers.longest),
    ])
}

/// Who gives permits to a process.
#[derive(Clone)]
enum Source {
    Ours { locks: LockManager, resource: String, permits: u32 },
    SortedSet(SortedSet),
}

enum Permit {
    Ours(LockGuard),
    SortedSet(SortedSetPermit),
}

impl Source {
    async fn acquire(&self) -> Result<Permit, BoxError> {
        Ok(match self {
            Self::Ours { locks, resource, permits } => Permit::Ours(locks.permits(resource, *permits).acquire().await?),
            Self::SortedSet(set) => Permit::SortedSet(set.acquire().await?),
        })
    }
}

impl Permit {
    async fn release(self) -> Result<(), BoxError> {
        match self {
            Self::Ours(guard) => guard.release().await.map(drop)?,
            Self::SortedSet(permit) => permit.release().await?,
        }
        Ok(())
    }
}

/// What the callers of some processes got.
#[derive(Default)]
struct Got {
    /// The permits that were granted in a second.
    grants: f64,
    /// The longest wait for one, in seconds.
    longest: f64,
    /// How often one was not granted, or not known to be released: on a busy machine, masters may reply too late.
    failures: u64,
}

/// Has tasks of each process take permits, over and over.
async fn load(processes: Vec<Source>, tasks: u32, length: Duration) -> Result<Got, BoxError> {
    let over = Arc::new(AtomicBool::new(false));
    let (began, mut running) = (Instant::now(), JoinSet::new());
    for source in processes.into_iter().flat_map(|source| (0..tasks).map(move |_| source.clone())) {
        let over = Arc::clone(&over);
        running.spawn(async move {
            let mut got = Got::default();
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let permit = source.acquire().await;
                got.longest = got.longest.max(asked.elapsed().as_secs_f64());
                got.grants += f64::from(u8::from(permit.is_ok() && !over.load(Ordering::Relaxed)));
                sleep(HOLD).await;
                let is_done = match permit {
                    Ok(permit) => permit.release().await.is_ok(),
                    Err(_) => false,
                };
                got.failures += u64::from(!is_done);
            }
            got
        });
    }
    sleep(length).await;
    over.store(true, Ordering::Relaxed);
    let (seconds, mut all) = (began.elapsed().as_secs_f64(), Got::default());
    while let Some(of_task) = running.join_next().await {
        let Got { grants, longest, failures } = of_task?;
        all = Got {
            grants: all.grants + grants / seconds,
            longest: all.longest.max(longest),
            failures: all.failures + failures,
        };
    }
    Ok(all)
}

struct Crowd<'a> {
    managers: &'a [LockManager],
    tasks: u32,
    permits: u32,
}

impl Crowd<'_> {
    async fn measure(&self, what: &str, length: Duration) -> Result<Vec<Row>, BoxError> {
        let ideal = self.sleepers(length).await?;
        let Got { grants, longest, failures } = self.callers(length).await?;
        let callers = u32::try_from(self.managers.len())? * self.tasks;
        let ideal_wait = (HOLD * callers / self.permits).as_secs_f64();
        let figure = format!("{what}, {} permits, 50 ms inside", self.permits);
        let least = if self.permits == 2 { 0.75 } else { 0.7 };
        Ok(vec![
            Row::new(PART, format!("{figure}: grants"), Unit::PerSecond, &[grants])
                .against(format!("{} tasks that only sleep", self.permits), &[grants], &[ideal])
                .at_least(least)
                .failures("ours", failures),
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

    /// The tasks of the managers, with a resource of their own.
    async fn callers(&self, length: Duration) -> Result<Got, BoxError> {
        let (resource, permits) = (fresh("permits"), self.permits);
        let source = |locks: &LockManager| Source::Ours { locks: locks.clone(), resource: resource.clone(), permits };
        load(self.managers.iter().map(source).collect(), self.tasks, length).await
    }
}
