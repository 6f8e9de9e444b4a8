//! How a run ends: stopped early, or without masters.

use inventory::{Config, LockStore, Mode, Progress, RunError, run};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_stopped_run_reports_what_was_measured() {
    let config = Config { modes: vec![Mode::AtomicSql, Mode::NoLock], ..Config::default() };
    let stop = CancellationToken::new();
    // Spawned, which shows that the future is `Send`.
    let running = tokio::spawn(async move {
        run(&config, &stop, |progress| {
            if let Progress::Finished(_) = progress {
                stop.cancel();
            }
        })
        .await
    });
    let report = running.await.unwrap().unwrap();
    assert!(report.interrupted && report.passed());
    assert_eq!(report.row(Mode::AtomicSql).unwrap().orders, 100);
    assert!(report.row(Mode::NoLock).is_none());
}

#[tokio::test]
async fn a_mode_that_is_stopped_at_once_sells_nothing_and_fails_nothing() {
    let config = Config { modes: vec![Mode::DistributedLock], ..Config::default() };
    let stop = CancellationToken::new();
    let report = run(&config, &stop, |progress| {
        if let Progress::Started(_) = progress {
            stop.cancel();
        }
    })
    .await
    .unwrap();
    let row = report.row(Mode::DistributedLock).unwrap();
    assert_eq!((row.orders, row.complete), (0, false));
    assert!(report.interrupted && report.passed());
}

#[tokio::test(start_paused = true)]
async fn unreachable_masters_are_an_error_not_a_table() {
    // Nothing listens on port 1 of the loopback interface.
    let locks = LockStore::Redis(vec!["redis://127.0.0.1:1".to_owned()]);
    let config = Config { locks, modes: vec![Mode::DistributedLock], ..Config::default() };
    let outcome = run(&config, &CancellationToken::new(), |_| {}).await;
    assert!(matches!(outcome, Err(RunError::Connect(_))), "{outcome:?}");
}

#[cfg(not(feature = "zookeeper"))]
#[tokio::test]
async fn a_store_that_is_not_compiled_in_is_an_error_that_names_the_feature() {
    let locks = LockStore::ZooKeeper("127.0.0.1:1".to_owned());
    let config = Config { locks, modes: vec![Mode::DistributedLock], ..Config::default() };
    let error = run(&config, &CancellationToken::new(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("--features zookeeper"), "{error}");
}
