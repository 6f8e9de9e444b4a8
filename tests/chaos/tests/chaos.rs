//! The promises under faults on real processes, and broken variants that the checks must catch. For longer runs:
//! `cargo run --release -p lock-chaos -- --help`.

use std::path::Path;

use lock_chaos::membership::{self, MembershipReport};
use lock_chaos::{Broken, Plan, Report, Store, run};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Instead of a number of seconds.
const EACH_FAULT_ONCE: u64 = 0;

/// How many runs of broken variants fit on the machine at a time.
const AT_A_TIME: u32 = 3;

/// A run that must be clean has the machine to itself. What is broken is found beside others, too.
async fn machine(broken: Option<Broken>) -> SemaphorePermit<'static> {
    static MACHINE: Semaphore = Semaphore::const_new(AT_A_TIME as usize);
    let share = if broken.is_some() { 1 } else { AT_A_TIME };
    MACHINE.acquire_many(share).await.expect("nobody closes it")
}

/// Runs chaos on redis-servers for `seconds`. The histories are kept until the report has been checked.
async fn chaos(seed: u64, seconds: u64, broken: Option<Broken>) -> (Report, TempDir) {
    let (plan, directory) = plan(seed, seconds, broken);
    (run_alone(&plan).await, directory)
}

async fn run_alone(plan: &Plan) -> Report {
    let _machine = machine(plan.broken).await;
    let report = run(plan).await;
    eprintln!("{report}");
    report
}

/// Runs chaos on another store for `seconds`, and wants no violation.
async fn no_guarantee_is_broken_on(store: Store, alone: bool, seconds: u64) -> Report {
    no_guarantee_is_broken_by(1, store, alone, seconds).await
}

async fn no_guarantee_is_broken_by(seed: u64, store: Store, alone: bool, seconds: u64) -> Report {
    let (plan, directory) = plan(seed, seconds, None);
    let plan = Plan { store, alone, ..plan };
    let report = run_alone(&plan).await;
    assert!(report.violations.is_empty(), "the histories are in {}\n{report}", directory.keep().display());
    report
}

/// Runs chaos about who the masters are.
async fn membership_chaos(seed: u64, seconds: u64, broken: Option<Broken>) -> (MembershipReport, TempDir) {
    let _machine = machine(broken).await;
    let (plan, directory) = plan(seed, seconds, broken);
    let report = membership::run(&plan).await;
    eprintln!("{report}");
    (report, directory)
}

fn plan(seed: u64, seconds: u64, broken: Option<Broken>) -> (Plan, TempDir) {
    let directory = TempDir::new().expect("a temporary directory can be created");
    let program = Path::new(env!("CARGO_BIN_EXE_chaos")).to_owned();
    let path = directory.path().to_owned();
    (Plan { store: Store::Redis, alone: false, seed, seconds, program, directory: path, broken }, directory)
}

// promise: exclusion, fencing, readers, permits, several-locks, delegation, forced-release, turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarantee_is_broken_while_faults_hit_a_minority() {
    let (seed, seconds) = (1, 15);
    let (report, histories) = chaos(seed, seconds, None).await;
    if !report.is_clean() {
        let rerun = format!("cargo run --release -p lock-chaos -- --seed {seed} --seconds {seconds}");
        panic!("the histories are in {}; to run this again: {rerun}\n{report}", histories.keep().display());
    }
}

// promise: postgresql
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarantee_is_broken_while_faults_hit_postgresql() {
    let report = no_guarantee_is_broken_on(Store::Postgres, false, EACH_FAULT_ONCE).await;
    assert!(report.grants > 0, "{report}");
    for fault in ["recreate_table", "truncate_table", "end_sessions", "lose_wakeups"] {
        assert!(report.faults.contains_key(fault), "there was no {fault}: {report}");
    }
}

// promise: postgresql
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_a_minority_of_postgresql() {
    let report = no_guarantee_is_broken_on(Store::Postgres, false, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: postgresql
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_postgresql_alone() {
    let report = no_guarantee_is_broken_on(Store::Postgres, true, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: replicas, quarantine
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarantee_is_broken_while_faults_hit_clusters() {
    // It is too short for every kind of fault. This seed begins with some that only clusters have.
    let report = no_guarantee_is_broken_by(3, Store::Cluster, false, 3).await;
    let of_clusters = ["fail_over", "move_slot", "lose_primary", "stop_primary"];
    assert!(of_clusters.iter().any(|fault| report.faults.contains_key(*fault)), "{report}");
    assert!(report.grants > 0, "{report}");
}

// promise: replicas, quarantine
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_a_minority_of_clusters() {
    let report = no_guarantee_is_broken_on(Store::Cluster, false, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: replicas
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_a_cluster_alone() {
    let report = no_guarantee_is_broken_on(Store::Cluster, true, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: zookeeper
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarantee_is_broken_while_faults_hit_zookeeper() {
    // It is too short for every kind of fault.
    let report = no_guarantee_is_broken_on(Store::Zookeeper, true, 2).await;
    assert!(report.grants > 0 && !report.faults.is_empty(), "{report}");
}

// promise: zookeeper
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_a_minority_of_an_ensemble() {
    let report = no_guarantee_is_broken_on(Store::Zookeeper, false, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: zookeeper
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_faults_hit_zookeeper_alone() {
    let report = no_guarantee_is_broken_on(Store::Zookeeper, true, 60).await;
    assert!(report.is_clean(), "{report}");
}

// promise: membership, quarantine
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarantee_is_broken_while_masters_are_replaced_and_damaged() {
    let (report, histories) = membership_chaos(1, 3, None).await;
    for fault in ["replace_master", "replicate_copy"] {
        assert!(report.faults.contains_key(fault), "there was no {fault}: {report}");
    }
    assert!(report.after_forming > 0, "no lock was acquired of a set that was formed again: {report}");
    // It is too short for every kind of fault.
    assert!(report.violations.is_empty(), "the histories are in {}\n{report}", histories.keep().display());
}

// promise: membership
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_guarantee_is_broken_while_all_masters_are_replaced() {
    let (seed, seconds) = (1, 60);
    let (report, directory) = membership_chaos(seed, seconds, None).await;
    if !report.is_clean() {
        let rerun = format!("cargo run --release -p lock-chaos -- --membership --seed {seed} --seconds {seconds}");
        panic!("the histories are in {}; to run this again: {rerun}\n{report}", directory.keep().display());
    }
}

/// Breaks something, and wants it found. Chance may hide it once.
async fn finds(broken: Broken, what: &str) {
    for seed in 1..=3 {
        let (report, _) = chaos(seed, 4, Some(broken)).await;
        if report.violations.iter().any(|violation| violation.contains(what)) {
            return;
        }
    }
    panic!("{broken:?} was not found");
}

// mutant: claims
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn without_the_fence_lost_updates_are_found() {
    finds(Broken::Unfenced, "an update was lost").await;
}

// mutant: no-deadlock
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn when_a_stranger_holds_a_resource_stuck_waiters_are_found() {
    finds(Broken::Stranger, "account-0 stayed free for").await;
}

// mutant: turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn when_the_servers_lose_their_queues_starvation_is_found() {
    finds(Broken::NoQueues, "passed over by").await;
}

// mutant: turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn when_dead_waiters_seem_to_listen_a_free_lock_is_found() {
    finds(Broken::Ghosts, "crowd was free for").await;
}

// mutant: quarantine
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: bash tests/run.sh --long"]
async fn when_masters_that_forgot_vote_at_once_two_valid_holders_are_found() {
    // The damage has to hit a master of a narrow majority while the lock is held: one seed of a few shows it.
    for seed in 1..=8 {
        let (report, _) = membership_chaos(seed, 15, Some(Broken::NoQuarantine)).await;
        if report.violations.iter().any(|violation| violation.contains("two valid holders")) {
            return;
        }
    }
    panic!("it was not found");
}
