//! A run, from end to end.

use std::time::Duration;

use lock_history::sets_are_all_or_nothing;
use tokio::time::{Instant, sleep};

use super::fault::Kind;
use super::history::Event;
use super::mix::Mix;
use super::nemesis::Nemesis;
use super::queue_stats::{Findings, QueueStats};
use super::report::Report;
use super::store::Store;
use super::waits::waits;
use super::windows::{self, NO_WAKEUPS, ONE_MUTE, ONE_UNCALLED, QUIET, SETTLE, windows};
use super::world::World;
use super::{
    Broken, MAX_TTL, Plan, SERVICES, crowd, fairness, grants, handovers, history, liveness, operator, safety, sets,
};

/// How long faults are injected before a quiet phase.
const FAULTS_LENGTH: Duration = Duration::from_secs(8);
/// The length of a quiet phase that only shows that everything makes progress.
const SHORT_QUIET: Duration = Duration::from_millis(1_200);
/// The length of a quiet phase in which liveness is checked: the first part passes until faults have settled, and the
/// rest is longer than anybody may be stuck.
const LONG_QUIET: Duration = Duration::from_millis(4_500);
/// How long no wake-ups arrive: longer than anybody may be stuck, because the timers must suffice.
const NO_WAKEUPS_LENGTH: Duration = Duration::from_secs(3);
/// How long one service gets no wake-ups, or sends none: twice as long as anybody may wait for the quick resource.
const ONE_UNCALLED_LENGTH: Duration = Duration::from_secs(5);
/// How long all servers are overloaded: longer than callers ride an outage out, and than any lock lives.
const OVERLOAD_LENGTH: Duration = Duration::from_secs(4);
/// How long a broken variant tampers with the queues or a resource.
const TAMPERING: Duration = Duration::from_secs(5);
/// After the last service ended, all locks must be gone within this time: they expire after their time to live.
const GONE: Duration = MAX_TTL.saturating_add(Duration::from_millis(500));

/// The longest pause between two looks of a service at a server that it cannot use. With one server alone, it may see so
/// late that it can.
const LATE: Duration = Duration::from_secs(2);

/// Runs the plan and checks the histories. All processes are ended and reaped when the future completes or is dropped.
///
/// # Panics
///
/// If the environment fails: no redis-server, no disk space.
pub async fn run(plan: &Plan) -> Report {
    let began = Instant::now();
    let mut report = Report { seed: plan.seed, ..Report::default() };
    let mut world = World::start(plan).await;
    let mut nemesis = Nemesis::new(&mut world, plan.seed);
    nemesis.first_start().await;
    nemesis.quiet(SHORT_QUIET).await;
    let length = Duration::from_secs(plan.seconds);
    match plan.broken {
        Some(Broken::Unfenced | Broken::NoQuarantine) => nemesis.inject_faults(length).await,
        Some(Broken::Stranger) => nemesis.stranger(TAMPERING).await,
        Some(Broken::NoQueues) => nemesis.no_queues(TAMPERING).await,
        Some(Broken::Ghosts) => nemesis.ghosts().await,
        // If there is no length, each fault once.
        None if length < FAULTS_LENGTH / 2 => nemesis.inject_faults(length).await,
        None => all_phases(&mut nemesis, length).await,
    }
    nemesis.recover().await;
    nemesis.quiet(SHORT_QUIET).await;
    nemesis.phase("end");
    report.progress = std::mem::take(&mut nemesis.progress);
    world.end().await;
    sleep(GONE).await;
    let left = world.keys().await;
    report
        .violations
        .extend((!left.is_empty()).then(|| format!("lock keys are left {GONE:?} after the end: {left:?}")));
    report.violations.append(&mut world.problems);
    judge(&world, &mut report);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// Faults within the limits of the promises, recovery, a phase without wake-ups, an overload, an unavailable majority, a crowd; again
/// and again.
async fn all_phases(nemesis: &mut Nemesis<'_, '_>, length: Duration) {
    let began = Instant::now();
    // Each of them once, at least.
    nemesis.inject_faults(Duration::ZERO).await;
    loop {
        nemesis.inject_faults(FAULTS_LENGTH.min(length.saturating_sub(began.elapsed())).max(FAULTS_LENGTH / 4)).await;
        nemesis.recover().await;
        nemesis.quiet(LONG_QUIET + late(nemesis.world.plan)).await;
        if !nemesis.world.plan.store.signs().is_empty() {
            nemesis.without_wakeups_for_one(ONE_UNCALLED_LENGTH).await;
            if nemesis.world.plan.store.has_a_right_to_publish() {
                nemesis.without_wakeups_from_one(ONE_UNCALLED_LENGTH).await;
            }
            nemesis.without_wakeups(NO_WAKEUPS_LENGTH).await;
        }
        nemesis.overload(OVERLOAD_LENGTH).await;
        nemesis.outage().await;
        nemesis.recover().await;
        nemesis.crowd().await;
        if began.elapsed() >= length {
            return;
        }
        nemesis.quiet(SHORT_QUIET).await;
    }
}

/// How much longer the effects of faults last than in a quorum of Redis.
fn late(plan: &Plan) -> Duration {
    plan.store.settle() + if plan.nodes() == 1 { LATE } else { Duration::ZERO }
}

/// Reads the histories and the database, counts, and checks.
fn judge(world: &World<'_>, report: &mut Report) {
    let (mut histories, mut all, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for path in &world.histories {
        let read = history::read(path).and_then(|history| {
            // The first history is that of the nemesis.
            let grants = if histories.is_empty() { Vec::new() } else { grants::grants(&history)? };
            Ok((history, grants))
        });
        match read {
            Ok((history, mut grants)) => {
                waiting.append(&mut waits(&history));
                histories.push(history);
                all.append(&mut grants);
            }
            Err(problem) => report.violations.push(problem),
        }
    }
    let nemesis = histories.first().map_or(&[][..], Vec::as_slice);
    let settle = SETTLE + late(world.plan);
    let quiet = windows(nemesis, &[QUIET], settle);
    let healthy = windows(nemesis, &[QUIET, ONE_UNCALLED, ONE_MUTE, NO_WAKEUPS], settle);
    let called = windows(nemesis, &[QUIET, ONE_UNCALLED, ONE_MUTE], settle);
    let gathering: Vec<_> = histories.iter().flat_map(|history| sets::gathering(history)).collect();
    let evictions: Vec<_> = histories.iter().flat_map(|history| operator::evictions(history)).collect();
    let seen: Vec<_> = histories.iter().flat_map(|history| sets::sets(history)).collect();
    let stalls: Vec<_> =
        histories.iter().flat_map(|history| windows::stalls(history)).map(|(_, window)| window).collect();
    let breaches = safety::grants_keep_the_promises(&all, &evictions);
    let findings = Findings {
        free: liveness::free_locks_are_taken(
            &all,
            &gathering,
            &waiting,
            &healthy,
            &stalls,
            world.plan.store.outlives(),
        ),
        served: liveness::the_quick_resource_is_served(&waiting, &called),
        passed: fairness::no_process_starves(&all, &waiting, &quiet, SERVICES),
        // Wake-ups come from outside of a process: its own callers stay in order without them.
        order: fairness::local_queues_are_fifo(&waiting, &healthy),
        writers: liveness::writers_are_served_beside_readers(&all, &waiting, &quiet),
    };
    let queues = QueueStats::count(nemesis, &all, &waiting, &findings, world.wakeups.read());
    let (crowd, crowd_violations) = crowd::judge(&histories, &all, &waiting, world.plan.store);
    report.count(&histories, &all, Mix::count(&histories, &all, &breaches), queues, crowd);
    let never = |kind: &Kind| !report.faults.contains_key(kind.name());
    let never =
        world.plan.store.faults().into_iter().filter(never).map(|kind| format!("{} never happened", kind.name()));
    report.without_effect.extend(never.collect::<Vec<_>>());
    let steps = nemesis.iter().filter(|record| matches!(record.event, Event::ClockStepped { .. })).count();
    let may_step = world.plan.store == Store::Postgres && world.plan.nodes() > 1;
    report.without_effect.extend((may_step && steps == 0).then(|| "no clock was stepped".to_owned()));
    report.without_effect.retain(|missing| !world.plan.store.lacks(world.plan.alone).contains(&missing.as_str()));
    let (counters, rows) = (world.ledger.counters().unwrap(), world.ledger.rows().unwrap());
    let checks = [
        breaches.into_iter().map(|(breach, _)| breach).collect(),
        safety::the_evicted_do_not_write(&all),
        sets_are_all_or_nothing(&seen),
        safety::no_update_is_lost(&all, &counters, &rows),
        safety::no_open_manager_reports_a_shutdown(&histories),
        handovers::handovers_are_bounded(&all),
        findings.free.violations,
        findings.served.violations,
        findings.passed.violations,
        findings.order.violations,
        findings.writers.violations,
        crowd_violations,
    ];
    report.violations.extend(checks.into_iter().flatten());
}
