//! One resource, many tasks, each with a fixed number of cycles and 1 ms of work in each: how long does it take, and is
//! it fair?

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::contender::{Contender, Locks};
use super::row::{Row, Unit};
use super::{BoxError, MASTERS, Plan, child, fresh};
use lock_support::RedisCluster;

const PART: &str = "contended";
const TASKS: usize = 64;
const WORK: Duration = Duration::from_millis(1);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let (rounds, cycles, limit) = plan.pick((3, 8, Duration::from_secs(8)), (1, 2, Duration::from_secs(3)));
    let cluster = RedisCluster::start(MASTERS).await;
    let urls = child::urls(&cluster);
    let ours = Contender::Ours.connect(&urls).await?;
    let mut peers = Vec::new();
    for contender in Contender::PEERS {
        peers.push(Peer { contender, locks: contender.connect(&urls).await?, seconds: Vec::new(), timed_out: None });
    }
    let (mut ideal, mut runs, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..TASKS * cycles {
            sleep(WORK).await;
        }
        ideal.push(began.elapsed().as_secs_f64());
        match run(&ours, cycles, limit).await? {
            Ran::Complete(fairness) => runs.push(fairness),
            Ran::TimedOut(done) => notes.push(format!("ours: timed out after {limit:?} with {done} cycles done")),
        }
        for peer in &mut peers {
            let ran = run(&peer.locks, cycles, limit).await?;
            peer.note(&ran, limit);
        }
    }

    let all_in_time = runs.len() == ideal.len();
    let figures = |of: &dyn Fn(&Fairness) -> f64| -> Vec<f64> { runs.iter().filter(|_| all_in_time).map(of).collect() };
    let seconds = figures(&|fairness| fairness.seconds);
    let figure = format!("one key, {TASKS} tasks x {cycles} cycles, 1 ms inside");
    let total = |name: &str, other: &[f64]| {
        Row::new(PART, format!("{figure}: total"), Unit::Seconds, &seconds).against(name, &seconds, other)
    };
    let own = |what: &str, rounds: &[f64]| Row::new(PART, format!("{figure}: {what}"), Unit::Number, rounds);

    // The baseline of the target is the peer with its default or its shortest delay, whichever is better. The setting
    // in between is better for this load. It has a row of its own, without a target: it comes close to the bare sleeps,
    // and nothing can be much faster than those.
    peers.sort_by(|one, other| one.median().total_cmp(&other.median()));
    let (between, judged): (Vec<_>, Vec<_>) = peers.iter().partition(|peer| peer.contender == Contender::Rslock50ms);
    let mut judged_row =
        total(&format!("{} (the better of default and 1 ms)", judged[0].contender.name()), &judged[0].seconds);
    judged_row.notes.extend(notes);
    judged_row.notes.extend(peers.iter().map(Peer::summary));
    let failures = runs.iter().map(|fairness| fairness.failures).sum();
    let sleeps = format!("{} sleeps of 1 ms, one after the other", TASKS * cycles);
    Ok(vec![
        judged_row.failures("ours", failures).at_most(0.8),
        total(between[0].contender.name(), &between[0].seconds),
        total(&sleeps, &ideal),
        own(
            &format!("longest wait, in rounds of {TASKS} cycles"),
            &figures(&|fairness| fairness.longest_wait / (fairness.seconds / cycles as f64)),
        )
        .at_most(1.5),
        own("cycles by which the slowest task trails the fastest", &figures(&|fairness| fairness.behind)).at_most(1.0),
    ])
}

/// The peer in one of its settings.
struct Peer {
    contender: Contender,
    locks: Locks,
    /// The time of each run. For a run that timed out, the limit, which is less than it would have needed.
    seconds: Vec<f64>,
    timed_out: Option<String>,
}

impl Peer {
    fn note(&mut self, ran: &Ran, limit: Duration) {
        match ran {
            Ran::Complete(fairness) => self.seconds.push(fairness.seconds),
            Ran::TimedOut(done) => {
                self.seconds.push(limit.as_secs_f64());
                self.timed_out = Some(format!(", timed out after {limit:?} with {done} cycles done"));
            }
        }
    }

    fn median(&self) -> f64 {
        super::Spread::of(&self.seconds).map_or(f64::INFINITY, |spread| spread.median)
    }

    fn summary(&self) -> String {
        let timed_out = self.timed_out.as_deref().unwrap_or_default();
        format!("{}: {:.2} s{timed_out}", self.contender.name(), self.median())
    }
}

/// The outcome of one run.
enum Ran {
    Complete(Fairness),
    /// The run timed out after this many cycles.
    TimedOut(usize),
}

struct Fairness {
    seconds: f64,
    longest_wait: f64,
    /// How many cycles the last task still had to do when the first one was done.
    behind: f64,
    failures: u64,
}

/// The progress of each task.
#[derive(Default)]
struct Progress {
    done: Mutex<Vec<usize>>,
    /// How many cycles the last task still had to do when the first one was done.
    behind: AtomicUsize,
    failures: AtomicU64,
}

impl Progress {
    fn done(&self) -> MutexGuard<'_, Vec<usize>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, task: usize, cycles: usize) {
        let mut done = self.done();
        done[task] += 1;
        if done[task] == cycles && done.iter().filter(|done| **done == cycles).count() == 1 {
            let fewest = done.iter().min().copied().unwrap_or_default();
            self.behind.store(cycles - fewest, Ordering::Relaxed);
        }
    }
}

async fn run(locks: &Locks, cycles: usize, limit: Duration) -> Result<Ran, BoxError> {
    let resource = fresh("contended");
    let progress = Arc::new(Progress { done: Mutex::new(vec![0; TASKS]), ..Progress::default() });
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(work(locks.clone(), resource.clone(), Arc::clone(&progress), task, cycles));
    }
    let mut longest_wait = Duration::ZERO;
    let in_time = timeout(limit, async {
        while let Some(longest) = tasks.join_next().await {
            longest_wait = longest_wait.max(longest?);
        }
        Ok::<_, BoxError>(())
    })
    .await;
    let seconds = began.elapsed().as_secs_f64();
    tasks.shutdown().await;
    let Ok(through) = in_time else { return Ok(Ran::TimedOut(progress.done().iter().sum())) };
    through?;
    let behind = progress.behind.load(Ordering::Relaxed) as f64;
    let failures = progress.failures.load(Ordering::Relaxed);
    Ok(Ran::Complete(Fairness { seconds, longest_wait: longest_wait.as_secs_f64(), behind, failures }))
}

/// Performs the cycles of one task. Returns the longest time that it waited for the lock.
async fn work(locks: Locks, resource: String, progress: Arc<Progress>, task: usize, cycles: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..cycles {
        let asked = Instant::now();
        let held = loop {
            match locks.lock(&resource).await {
                Ok(held) => break held,
                Err(_) => _ = progress.failures.fetch_add(1, Ordering::Relaxed),
            }
            sleep(WORK).await;
        };
        longest = longest.max(asked.elapsed());
        sleep(WORK).await;
        progress.count(task, cycles);
        if held.release().await.is_err() {
            progress.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
    longest
}
