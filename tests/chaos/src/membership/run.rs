//! A run about membership, from end to end.

use std::time::Duration;

use futures_util::future::join_all;
use lock_history::sets_are_all_or_nothing;
use tokio::time::{Instant, sleep};

use super::super::mix::Mix;
use super::super::probe::watch_for_stalls;
use super::super::{MAX_TTL, PREFIX, Plan, grants, handovers, history, operator, safety, sets};
use super::arena::Arena;
use super::forming::form_again;
use super::nemesis::inject_faults;
use super::report::MembershipReport;
use lock_support::Dice;

/// How long everything runs without faults at the end.
const QUIET: Duration = Duration::from_secs(1);
/// After the last service ended, all locks must be gone within this time.
const GONE: Duration = MAX_TTL.saturating_add(Duration::from_millis(500));

/// Replaces and damages masters under load, and checks the histories. All processes are ended and reaped when the
/// future completes or is dropped.
///
/// # Panics
///
/// If the environment fails: no redis-server, no disk space.
pub async fn run(plan: &Plan) -> MembershipReport {
    let began = Instant::now();
    let mut report = MembershipReport { seed: plan.seed, ..MembershipReport::default() };
    let arena = Arena::start(plan).await;
    watch_for_stalls(&arena.journal);
    arena.until_all_vote().await;
    inject_faults(&arena, plan.seed, Duration::from_secs(plan.seconds)).await;
    arena.until_all_vote().await;
    sleep(QUIET).await;
    let _masters = form_again(&arena, &mut Dice::new(plan.seed)).await;
    arena.phase("end");
    arena.fleet.end().await;
    sleep(GONE).await;
    report.violations.extend(locks_left(&arena).await);
    report.violations.append(&mut arena.fleet.problems.lock().unwrap());
    judge(&arena, plan, &mut report);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

async fn locks_left(arena: &Arena<'_>) -> Option<String> {
    let masters = join_all(arena.masters.iter().map(tokio::sync::Mutex::lock)).await;
    let pattern = format!("{PREFIX}[^{{]*");
    let left = masters.iter().map(|master| master.server.keys(&pattern));
    let left = join_all(left).await.concat();
    (!left.is_empty()).then(|| format!("lock keys are left {GONE:?} after the end: {left:?}"))
}

/// Reads the histories and the database, counts, and checks.
fn judge(arena: &Arena<'_>, plan: &Plan, report: &mut MembershipReport) {
    let (mut services, mut all) = (Vec::new(), Vec::new());
    for path in arena.fleet.histories.lock().unwrap().iter() {
        let read = history::read(path).and_then(|history| Ok((grants::grants(&history)?, history)));
        match read {
            Ok((mut grants, history)) => {
                all.append(&mut grants);
                services.push(history);
            }
            Err(problem) => report.violations.push(problem),
        }
    }
    let nemesis = history::read(&plan.directory.join("nemesis.jsonl")).unwrap();
    let evictions: Vec<_> = services.iter().flat_map(|history| operator::evictions(history)).collect();
    let seen: Vec<_> = services.iter().flat_map(|history| sets::sets(history)).collect();
    let breaches = safety::grants_keep_the_promises(&all, &evictions);
    report.count(&nemesis, &services, &all, Mix::count(&services, &all, &breaches));
    report.judge_availability(&nemesis, &services);
    let (counters, rows) = (arena.ledger.counters().unwrap(), arena.ledger.rows().unwrap());
    let checks = [
        breaches.into_iter().map(|(breach, _)| breach).collect(),
        safety::the_evicted_do_not_write(&all),
        sets_are_all_or_nothing(&seen),
        safety::no_update_is_lost(&all, &counters, &rows),
        safety::no_open_manager_reports_a_shutdown(&services),
        handovers::handovers_are_bounded(&all),
    ];
    report.violations.extend(checks.into_iter().flatten());
}
