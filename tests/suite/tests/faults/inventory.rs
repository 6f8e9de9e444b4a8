//! The table of the inventory example, as a test: the guarded modes never oversell, and the others show why that matters.

use inventory::{Config, LockStore, Mode, Report, run};
use lock_support::{PostgresServer, RedisCluster, RedisServer, ZooKeeperServer, alone};
use tokio_util::sync::CancellationToken;

async fn run_table(config: Config) -> Report {
    let report = run(&config, &CancellationToken::new(), |_| {}).await.unwrap();
    assert!(!report.interrupted);
    report
}

fn assert_sold_exactly(report: &Report, mode: Mode) {
    let row = report.row(mode).unwrap();
    assert_eq!((row.orders, row.oversold), (row.stock, 0), "{mode:?}: {row:?}");
}

/// The whole table. Its guarded modes sell all of the stock and no more; the others sell more.
async fn only_the_guarded_modes_sell_exactly(config: Config) {
    let _alone = alone().await;
    let report = run_table(config).await;
    for mode in [Mode::DistributedLock, Mode::PauseFenceClaimed, Mode::AtomicSql] {
        assert_sold_exactly(&report, mode);
    }
    assert!(report.passed(), "{:?}", report.failures);
    for mode in [Mode::NoLock, Mode::LocalMutex, Mode::Pause] {
        assert!(report.row(mode).unwrap().oversold > 0, "{mode:?} shows what a lock and a fence are for");
    }
    let claimed = report.row(Mode::PauseFenceClaimed).unwrap();
    assert!(claimed.stale_rejected.unwrap() > 0, "the fence rejected stale tokens: {claimed:?}");
}

// promise: fencing
#[tokio::test(flavor = "multi_thread")]
async fn the_guarded_modes_never_oversell_and_the_others_do() {
    only_the_guarded_modes_sell_exactly(Config { stock: 40, buyers: 120, ..Config::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: bash tests/run.sh --long"]
async fn the_guarded_modes_never_oversell_and_the_others_do_by_default() {
    only_the_guarded_modes_sell_exactly(Config::default()).await;
}

// promise: fencing
#[tokio::test(flavor = "multi_thread")]
async fn lock_and_fence_never_oversell_on_real_servers() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = LockStore::Redis(cluster.servers.iter().map(RedisServer::url).collect());
    lock_and_fence_never_oversell(Config { locks, ..Config::default() }).await;
}

// promise: fencing
#[tokio::test(flavor = "multi_thread")]
async fn lock_and_fence_never_oversell_with_locks_in_postgresql() {
    let _alone = alone().await;
    let server = PostgresServer::start().await;
    let locks = LockStore::Postgres(vec![server.url()]);
    lock_and_fence_never_oversell(Config { stock: 40, buyers: 120, locks, ..Config::default() }).await;
}

// promise: fencing
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_zookeeper_never_oversells() {
    let _alone = alone().await;
    let locks = LockStore::ZooKeeper(ZooKeeperServer::shared().await);
    let modes = vec![Mode::NoLock, Mode::DistributedLock];
    let report = run_table(Config { stock: 40, buyers: 120, locks, modes, ..Config::default() }).await;
    assert_sold_exactly(&report, Mode::DistributedLock);
}

async fn lock_and_fence_never_oversell(config: Config) {
    let modes = vec![Mode::DistributedLock, Mode::PauseFenceClaimed];
    let report = run_table(Config { modes, ..config }).await;
    assert_sold_exactly(&report, Mode::DistributedLock);
    assert_sold_exactly(&report, Mode::PauseFenceClaimed);
    let claimed = report.row(Mode::PauseFenceClaimed).unwrap();
    assert!(claimed.stale_rejected.unwrap() > 0, "the fence rejected stale tokens: {claimed:?}");
}

// promise: fencing
#[tokio::test(flavor = "multi_thread")]
async fn a_stock_in_postgresql_is_not_oversold_either() {
    let _alone = alone().await;
    let server = PostgresServer::start().await;
    let database = Some(server.url().parse().unwrap());
    let modes = vec![Mode::NoLock, Mode::DistributedLock, Mode::PauseFenceClaimed, Mode::AtomicSql];
    let report = run_table(Config { stock: 40, buyers: 120, database, modes, ..Config::default() }).await;
    for mode in [Mode::DistributedLock, Mode::PauseFenceClaimed, Mode::AtomicSql] {
        assert_sold_exactly(&report, mode);
    }
    assert!(report.row(Mode::NoLock).unwrap().oversold > 0, "what a lock is for");
    let claimed = report.row(Mode::PauseFenceClaimed).unwrap();
    assert!(claimed.stale_rejected.unwrap() > 0, "the fence rejected stale tokens: {claimed:?}");
}
