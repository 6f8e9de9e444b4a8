//! A shop whose stock is in PostgreSQL, and what it says if that cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::error::Error;

use inventory::{Config, Mode, Report, RunError, run};
use lock_support::PostgresServer;
use tokio_util::sync::CancellationToken;

async fn sell_five(url: &str) -> Result<Report, RunError> {
    let (database, modes) = (Some(url.parse().unwrap()), vec![Mode::PauseFenceClaimed]);
    let config = Config { stock: 5, buyers: 8, instances: 2, database, modes, ..Config::default() };
    run(&config, &CancellationToken::new(), |_| {}).await
}

fn with_causes(error: &dyn Error) -> String {
    let cause = error.source().map(with_causes).unwrap_or_default();
    format!("{error}: {cause}")
}

#[tokio::test]
async fn a_user_without_rights_is_told_what_its_owner_has_to_run() {
    let server = PostgresServer::start().await;
    server.query("CREATE ROLE shop LOGIN").await;
    let url = server.url_of("shop");
    let error = with_causes(&sell_five(&url).await.unwrap_err());
    for told in ["CREATE TABLE IF NOT EXISTS stock", "lock_fence (resource", "permission denied for schema public"] {
        assert!(error.contains(told), "{told}: {error}");
    }

    let printed = error.split("grant the right:").nth(1).unwrap().rsplit_once(';').unwrap().0;
    server.query(printed).await;
    let error = with_causes(&sell_five(&url).await.unwrap_err());
    assert!(error.contains("INSERT INTO stock") && error.contains("permission denied for table stock"), "{error}");

    server.query("GRANT SELECT, INSERT, UPDATE ON stock, orders, lock_fence TO shop").await;
    let report = sell_five(&url).await.unwrap();
    assert!(report.passed(), "{:?}", report.failures);
    assert_eq!(server.query("SELECT count(*), sum(quantity) FROM orders").await, "5|5");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_its_password() {
    // Nothing listens on port 1 of the loopback interface.
    let error = with_causes(&sell_five("postgres://shop:secret@127.0.0.1:1/shop").await.unwrap_err());
    assert!(error.contains("cannot connect to PostgreSQL at 127.0.0.1:1"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
