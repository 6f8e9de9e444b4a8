//! One key, many tasks, each with a quota of cycles, and 1 ms of work inside: how long does it take, and is it fair?

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::contender::{Contender, Locks};
use super::row::{Row, Unit};
use super::{Failure, MASTERS, Plan, crew, fresh};
use lock_support::RedisCluster;

const PART: &str = "quota";
const TASKS: usize = 64;
const WORK: Duration = Duration::from_millis(1);

pub(super) async fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (rounds, quota, limit) = plan.pick((3, 8, Duration::from_secs(8)), (1, 2, Duration::from_secs(3)));
    let cluster = RedisCluster::start(MASTERS).await;
    let urls = crew::urls(&cluster);
    let ours = Contender::Ours.connect(&urls).await?;
    let mut peers = Vec::new();
    for contender in Contender::PEERS {
        peers.push(Peer { contender, locks: contender.connect(&urls).await?, seconds: Vec::new(), timed_out: None });
    }
    let (mut ideal, mut us, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..TASKS * quota {
            sleep(WORK).await;
        }
        ideal.push(began.elapsed().as_secs_f64());
        match run(&ours, quota, limit).await? {
            Ran::Through(fairness) => us.push(fairness),
            Ran::OutOfTime(done) => notes.push(format!("ours: timed out after {limit:?} with {done} cycles done")),
        }
        for peer in &mut peers {
            let ran = run(&peer.locks, quota, limit).await?;
            peer.note(&ran, limit);
        }
    }

    let all_in_time = us.len() == ideal.len();
    let figures = |of: &dyn Fn(&Fairness) -> f64| -> Vec<f64> { us.iter().filter(|_| all_in_time).map(of).collect() };
    let seconds = figures(&|fairness| fairness.seconds);
    let figure = format!("one key, {TASKS} tasks x {quota} cycles, 1 ms inside");
    let total = |name: &str, other: &[f64]| {
        Row::new(PART, format!("{figure}: total"), Unit::Seconds, &seconds).against(name, &seconds, other)
    };
    let own = |what: &str, rounds: &[f64]| Row::new(PART, format!("{figure}: {what}"), Unit::Number, rounds);

    // Judged against the peer as it comes or at its tightest, whichever is better. In between it has a better setting for
    // this, which is shown beside; it comes close to the bare sleeps, and nothing can be much faster than those.
    peers.sort_by(|one, other| one.median().total_cmp(&other.median()));
    let (between, judged): (Vec<_>, Vec<_>) = peers.iter().partition(|peer| peer.contender == Contender::Rslock50ms);
    let mut first =
        total(&format!("{} (its default or tightest, the better)", judged[0].contender.name()), &judged[0].seconds);
    first.notes.extend(notes);
    first.notes.extend(peers.iter().map(Peer::told));
    let failures = us.iter().map(|fairness| fairness.failures).sum();
    let asleep = format!("{} sleeps of 1 ms, one by one", TASKS * quota);
    Ok(vec![
        first.failures("ours", failures).at_most(0.8),
        total(between[0].contender.name(), &between[0].seconds),
        total(&asleep, &ideal),
        own(
            &format!("longest wait, in rounds of {TASKS} cycles"),
            &figures(&|fairness| fairness.longest_wait / (fairness.seconds / quota as f64)),
        )
        .at_most(1.5),
        own("cycles that the last is behind the first", &figures(&|fairness| fairness.behind)).at_most(1.0),
    ])
}

/// The peer in one of its settings.
struct Peer {
    contender: Contender,
    locks: Locks,
    /// Of a run that was out of time: how long it was given, which is less than it would have needed.
    seconds: Vec<f64>,
    timed_out: Option<String>,
}

impl Peer {
    fn note(&mut self, ran: &Ran, limit: Duration) {
        match ran {
            Ran::Through(fairness) => self.seconds.push(fairness.seconds),
            Ran::OutOfTime(done) => {
                self.seconds.push(limit.as_secs_f64());
                self.timed_out = Some(format!(", timed out after {limit:?} with {done} cycles done"));
            }
        }
    }

    fn median(&self) -> f64 {
        super::Spread::of(&self.seconds).map_or(f64::INFINITY, |spread| spread.median)
    }

    fn told(&self) -> String {
        let timed_out = self.timed_out.as_deref().unwrap_or_default();
        format!("{}: {:.2} s{timed_out}", self.contender.name(), self.median())
    }
}

/// What came of one run.
enum Ran {
    Through(Fairness),
    /// So many cycles were done by then.
    OutOfTime(usize),
}

struct Fairness {
    seconds: f64,
    longest_wait: f64,
    /// How many cycles the last task still had to do when the first one was done.
    behind: f64,
    failures: u64,
}

/// Who has done how much.
#[derive(Default)]
struct Ledger {
    done: Mutex<Vec<usize>>,
    /// How many cycles the last task still had to do when the first one was done.
    behind: AtomicUsize,
    failures: AtomicU64,
}

impl Ledger {
    fn done(&self) -> MutexGuard<'_, Vec<usize>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, task: usize, quota: usize) {
        let mut done = self.done();
        done[task] += 1;
        if done[task] == quota && done.iter().filter(|done| **done == quota).count() == 1 {
            let least = done.iter().min().copied().unwrap_or_default();
            self.behind.store(quota - least, Ordering::Relaxed);
        }
    }
}

async fn run(locks: &Locks, quota: usize, limit: Duration) -> Result<Ran, Failure> {
    let key = fresh("quota");
    let ledger = Arc::new(Ledger { done: Mutex::new(vec![0; TASKS]), ..Ledger::default() });
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(work(locks.clone(), key.clone(), Arc::clone(&ledger), task, quota));
    }
    let mut longest_wait = Duration::ZERO;
    let in_time = timeout(limit, async {
        while let Some(longest) = tasks.join_next().await {
            longest_wait = longest_wait.max(longest?);
        }
        Ok::<_, Failure>(())
    })
    .await;
    let seconds = began.elapsed().as_secs_f64();
    tasks.shutdown().await;
    let Ok(through) = in_time else { return Ok(Ran::OutOfTime(ledger.done().iter().sum())) };
    through?;
    let behind = ledger.behind.load(Ordering::Relaxed) as f64;
    let failures = ledger.failures.load(Ordering::Relaxed);
    Ok(Ran::Through(Fairness { seconds, longest_wait: longest_wait.as_secs_f64(), behind, failures }))
}

/// Does one task's quota. The longest that it waited for the lock.
async fn work(locks: Locks, key: String, ledger: Arc<Ledger>, task: usize, quota: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..quota {
        let asked = Instant::now();
        let held = loop {
            match locks.lock(&key).await {
                Ok(held) => break held,
                Err(_) => _ = ledger.failures.fetch_add(1, Ordering::Relaxed),
            }
            sleep(WORK).await;
        };
        longest = longest.max(asked.elapsed());
        sleep(WORK).await;
        ledger.count(task, quota);
        if held.release().await.is_err() {
            ledger.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
    longest
}
