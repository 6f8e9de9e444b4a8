//! One resource, many instances, and too little processor time: does the rate hold, and is anybody turned away?

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::commands::Meter;
use super::contender::Contender;
use super::processes::{Crowd, Size, crowd_beside};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child};
use lock_support::{RedisCluster, RedisServer};

const PART: &str = "overload";
/// How many instances, each with a task. The rate of the others is compared with that of the first.
const INSTANCES: [usize; 3] = [64, 128, 256];
/// The instances share this many processes.
const PROCESSES: usize = 8;
/// How many milliseconds of work there are inside the lock.
const INSIDE: u64 = 2;
/// For how long the masters are stopped, and then run.
const STUTTER: (Duration, Duration) = (Duration::from_millis(80), Duration::from_millis(20));

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for shortage in [Shortage::BusyProcessors, Shortage::StoppedMasters] {
        let cluster = Arc::new(RedisCluster::start(MASTERS).await);
        let (masters, meter) = (child::urls(&cluster), Meter::connect(&cluster).await?);
        let mut of_fewest: Option<f64> = None;
        for instances in INSTANCES {
            let millis = plan.pick(14_000, 5_000);
            let size =
                Size { processes: PROCESSES, instances: instances / PROCESSES, tasks: 1, millis, inside: INSIDE };
            let begin = || shortage.begin(&cluster);
            let crowd = crowd_beside(plan, &masters, &meter, Contender::OursByDefault, size, begin).await?;
            rows.extend(rows_of(shortage, instances, &crowd, of_fewest));
            of_fewest.get_or_insert(crowd.per_second());
        }
    }
    Ok(rows)
}

fn rows_of(shortage: Shortage, instances: usize, crowd: &Crowd, of_fewest: Option<f64>) -> [Row; 4] {
    let figure = |what: &str| format!("{}, one key, {instances} instances: {what}", shortage.name());
    let row = |what: &str, unit, value: f64| Row::new(PART, figure(what), unit, &[value]);
    let rate = crowd.per_second();
    let cycles = row("cycles", Unit::PerSecond, rate);
    [
        match of_fewest {
            Some(fewest) => {
                cycles.against(format!("ours, {} instances", INSTANCES[0]), &[rate], &[fewest]).at_least(0.7)
            }
            None => cycles,
        }
        .failures("ours", crowd.failures()),
        row("script calls a cycle, on each master", Unit::Number, crowd.commands / MASTERS as f64),
        row("callers that got no quorum", Unit::Number, crowd.no_quorum()).own_at_most(0.0),
        row("instances without a turn", Unit::Number, crowd.without_a_turn()).own_at_most(0.0),
    ]
}

/// What there is too little of.
#[derive(Clone, Copy)]
enum Shortage {
    /// As many threads as processors never sleep.
    BusyProcessors,
    /// The masters are stopped for most of the time.
    StoppedMasters,
}

impl Shortage {
    fn name(self) -> &'static str {
        match self {
            Self::BusyProcessors => "a busy thread on each processor",
            Self::StoppedMasters => "masters stopped for 80 of each 100 ms",
        }
    }

    fn begin(self, cluster: &Arc<RedisCluster>) -> Disturbance {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = match self {
            Self::BusyProcessors => {
                let processors = thread::available_parallelism().map_or(1, usize::from);
                (0..processors).map(|_| spawn(Arc::clone(&ends), spin_loop)).collect()
            }
            Self::StoppedMasters => {
                let cluster = Arc::clone(cluster);
                let stutter = move || {
                    cluster.servers.iter().for_each(RedisServer::stop);
                    thread::sleep(STUTTER.0);
                    cluster.servers.iter().for_each(RedisServer::cont);
                    thread::sleep(STUTTER.1);
                };
                vec![spawn(Arc::clone(&ends), stutter)]
            }
        };
        Disturbance { ends, threads }
    }
}

/// Does something again and again, on a thread of its own.
fn spawn(ends: Arc<AtomicBool>, again: impl Fn() + Send + 'static) -> JoinHandle<()> {
    thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            again();
        }
    })
}

/// A shortage that ends when this is dropped.
struct Disturbance {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended, too.
            drop(thread.join());
        }
    }
}
