//! A run, from end to end.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::healthy::{DEAF, QUIET, windows};
use super::nemesis::Nemesis;
use super::queueing::{Queueing, Watch};
use super::report::Report;
use super::waits::waits;
use super::world::World;
use super::{Broken, MAX_TTL, Plan, check, fairness, grants, history, stuck, turns};

/// How long faults go on before there is a quiet phase.
const RAGE: Duration = Duration::from_secs(8);
/// How long a quiet phase lasts in which nothing is looked for but whether everything gets on.
const BREATH: Duration = Duration::from_millis(1_200);
/// How long one lasts in which those who wait are watched: some of it is lost until everything has settled, and the rest is
/// longer than anybody may be stuck.
const WATCH: Duration = Duration::from_millis(4_500);
/// How long all services are deaf: longer than anybody may be stuck, for the timers must do.
const DEAFNESS: Duration = Duration::from_secs(3);
/// How long the queues, or a resource, are tampered with.
const TAMPERING: Duration = Duration::from_secs(5);
/// After the last service ended, all locks must be gone within this time: they end with their time to live.
const GONE: Duration = MAX_TTL.saturating_add(Duration::from_millis(500));

/// Runs the plan and checks what happened. All processes are ended and reaped when the future is done, or dropped.
///
/// # Panics
///
/// If the machine does not do its part: no redis-server, no disk space.
pub async fn run(plan: &Plan) -> Report {
    let began = Instant::now();
    let mut report = Report { seed: plan.seed, ..Report::default() };
    let mut world = World::start(plan).await;
    let mut nemesis = Nemesis::new(&mut world, plan.seed);
    nemesis.first_start().await;
    nemesis.quiet(BREATH).await;
    match plan.broken {
        Some(Broken::Amnesia) => nemesis.amnesia().await,
        Some(Broken::Unfenced) => nemesis.rage(Duration::from_secs(plan.seconds)).await,
        Some(Broken::Stranger) => nemesis.stranger(TAMPERING).await,
        Some(Broken::NoQueues) => nemesis.no_queues(TAMPERING).await,
        None => hurt(&mut nemesis, Duration::from_secs(plan.seconds)).await,
    }
    nemesis.recover().await;
    nemesis.quiet(BREATH).await;
    nemesis.phase("end");
    report.progress = std::mem::take(&mut nemesis.progress);
    world.end().await;
    sleep(GONE).await;
    let left = world.keys().await;
    report.violations.extend((!left.is_empty()).then(|| format!("keys are left {GONE:?} after the end: {left:?}")));
    report.violations.append(&mut world.troubles);
    judge(&world, &mut report);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// Faults within the promises, time to recover, all services deaf, a majority away; again and again.
async fn hurt(nemesis: &mut Nemesis<'_, '_>, length: Duration) {
    let began = Instant::now();
    loop {
        nemesis.rage(RAGE.min(length.saturating_sub(began.elapsed())).max(RAGE / 2)).await;
        nemesis.recover().await;
        nemesis.quiet(WATCH).await;
        nemesis.deaf(DEAFNESS).await;
        nemesis.outage().await;
        if began.elapsed() >= length {
            return;
        }
        nemesis.recover().await;
        nemesis.quiet(BREATH).await;
    }
}

/// Reads the histories and the database, counts, and checks.
fn judge(world: &World<'_>, report: &mut Report) {
    let (mut histories, mut all, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for path in &world.histories {
        let read = history::read(path).and_then(|history| {
            // The first history is the nemesis's.
            let grants = if histories.is_empty() { Vec::new() } else { grants::grants(&history)? };
            Ok((history, grants))
        });
        match read {
            Ok((history, mut grants)) => {
                waiting.append(&mut waits(&history));
                histories.push(history);
                all.append(&mut grants);
            }
            Err(trouble) => report.violations.push(trouble),
        }
    }
    let nemesis = histories.first().map_or(&[][..], Vec::as_slice);
    let (calm, well) = (windows(nemesis, &[QUIET]), windows(nemesis, &[QUIET, DEAF]));
    let watch = Watch {
        free: stuck::free_is_taken(&all, &waiting, &well),
        served: stuck::the_hurried_are_served(&waiting, &calm),
        passed: fairness::no_process_starves(&all, &waiting, &calm),
        order: fairness::lines_keep_their_order(&waiting, &calm),
    };
    let queueing = Queueing::count(nemesis, &all, &waiting, &watch, world.calls.read());
    report.count(&histories, &all, queueing);
    let (counters, rows) = (world.ledger.counters().unwrap(), world.ledger.rows().unwrap());
    let checks = [
        check::grants_keep_the_promises(&all),
        check::no_update_is_lost(&all, &counters, &rows),
        check::an_open_manager_turns_nobody_away(&histories),
        turns::turns_end(&all),
        watch.free.violations,
        watch.served.violations,
        watch.passed.violations,
        watch.order.violations,
    ];
    report.violations.extend(checks.into_iter().flatten());
}
