//! The inventory service's table, as a test: what must not oversell does not, and what has to be feared can be seen.

use inventory::{Config, Mode, Report, run};
use lock_support::{RedisCluster, RedisServer, alone};
use tokio_util::sync::CancellationToken;

async fn table(config: Config) -> Report {
    let report = run(&config, &CancellationToken::new(), |_| {}).await.unwrap();
    assert!(!report.interrupted);
    report
}

fn assert_sold_exactly(report: &Report, mode: Mode) {
    let row = report.row(mode).unwrap();
    assert_eq!((row.orders, row.oversold), (row.stock, 0), "{mode:?}: {row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guarded_modes_never_oversell_and_the_others_do() {
    let _alone = alone().await;
    let report = table(Config::default()).await;
    for mode in [Mode::DistributedLock, Mode::PauseFenceClaimed, Mode::AtomicSql] {
        assert_sold_exactly(&report, mode);
    }
    assert!(report.passed(), "{:?}", report.failures);
    for mode in [Mode::NoLock, Mode::LocalMutex, Mode::Pause] {
        assert!(report.row(mode).unwrap().oversold > 0, "{mode:?} is there to show what a lock and a fence are for");
    }
    let claimed = report.row(Mode::PauseFenceClaimed).unwrap();
    assert!(claimed.stale_rejected.unwrap() > 0, "the fence was put to the test: {claimed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_and_fence_never_oversell_on_real_masters() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let redis = cluster.servers.iter().map(RedisServer::url).collect();
    let modes = vec![Mode::DistributedLock, Mode::PauseFenceClaimed];
    let report = table(Config { redis, modes, ..Config::default() }).await;
    assert_sold_exactly(&report, Mode::DistributedLock);
    assert_sold_exactly(&report, Mode::PauseFenceClaimed);
    let claimed = report.row(Mode::PauseFenceClaimed).unwrap();
    assert!(claimed.stale_rejected.unwrap() > 0, "the fence was put to the test: {claimed:?}");
}
