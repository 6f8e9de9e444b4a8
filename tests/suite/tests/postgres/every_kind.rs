//! Locks of every kind in PostgreSQL.

use lock_core::LockManager;
use lock_support::{
    Kind, PostgresServer, on_one_thread, try_every_kind, try_every_kind_on_two_runtimes, whatever_becomes_of_it,
};

// promise: postgresql
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_a_database() {
    let server = PostgresServer::start().await;
    try_every_kind(|| LockManager::builder().postgres([server.url()]), &Kind::ALL).await;
}

// promise: any-runtime
#[test]
fn locks_in_a_database_are_renewed_on_another_runtime() {
    let server = on_one_thread().block_on(PostgresServer::start());
    whatever_becomes_of_it(|fate| {
        // Managers whose prefix differs share nothing.
        let builder = || LockManager::builder().postgres([server.url()]).prefix(format!("{fate:?}:"));
        try_every_kind_on_two_runtimes(fate, builder, &Kind::ALL, true);
    });
}
