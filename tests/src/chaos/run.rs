//! A run, from end to end.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::nemesis::Nemesis;
use super::report::Report;
use super::world::World;
use super::{Broken, MAX_TTL, Plan, check, grants, history};

/// How long faults go on before there is a quiet phase.
const RAGE: Duration = Duration::from_secs(6);
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
    nemesis.quiet().await;
    match plan.broken {
        Some(Broken::Amnesia) => nemesis.amnesia().await,
        Some(Broken::Unfenced) => nemesis.rage(Duration::from_secs(plan.seconds)).await,
        None => hurt(&mut nemesis, Duration::from_secs(plan.seconds)).await,
    }
    nemesis.recover().await;
    nemesis.quiet().await;
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

/// Faults within the promises, time to recover, a majority away; again and again.
async fn hurt(nemesis: &mut Nemesis<'_, '_>, length: Duration) {
    let began = Instant::now();
    loop {
        nemesis.rage(RAGE.min(length.saturating_sub(began.elapsed())).max(RAGE / 2)).await;
        nemesis.recover().await;
        nemesis.quiet().await;
        nemesis.outage().await;
        if began.elapsed() >= length {
            return;
        }
        nemesis.recover().await;
        nemesis.quiet().await;
    }
}

/// Reads the histories and the database, counts, and checks.
fn judge(world: &World<'_>, report: &mut Report) {
    let (mut histories, mut all) = (Vec::new(), Vec::new());
    for path in &world.histories {
        let read = history::read(path).and_then(|history| {
            // The first history is the nemesis's.
            let grants = if histories.is_empty() { Vec::new() } else { grants::grants(&history)? };
            Ok((history, grants))
        });
        match read {
            Ok((history, mut grants)) => {
                histories.push(history);
                all.append(&mut grants);
            }
            Err(trouble) => report.violations.push(trouble),
        }
    }
    report.count(&histories, &all);
    let (counters, rows) = (world.ledger.counters().unwrap(), world.ledger.rows().unwrap());
    let checks = [
        check::tokens_are_unique(&all),
        check::tokens_are_ordered(&all),
        check::validity_does_not_overlap(&all),
        check::no_update_is_lost(&all, &counters, &rows),
    ];
    report.violations.extend(checks.into_iter().flatten());
}
