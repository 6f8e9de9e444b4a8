//! Servers whose clocks step.

use std::time::Duration;

use lock_core::{LockError, LockManager};
use lock_support::{PostgresServer, eventually_async};

const TTL: Duration = Duration::from_millis(1500);
/// Further than a lock lives.
const STEP: Duration = Duration::from_millis(1600);

// promise: exclusion
#[tokio::test]
async fn one_of_three_clocks_may_step_while_the_others_have_the_lock() {
    let servers = [
        PostgresServer::start_with_clock(0).await,
        PostgresServer::start_with_clock(0).await,
        PostgresServer::start_with_clock(0).await,
    ];
    let builder = || LockManager::builder().postgres(servers.iter().map(PostgresServer::url)).ttl(TTL).max_ttl(TTL);
    let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let held = ours.lock("r").acquire().await.unwrap();
    let alive = "SELECT count(*) FROM locks.lock WHERE expires > clock_timestamp()";
    let all_have_it = async || {
        let mut having = 0;
        for server in &servers {
            having += usize::from(server.query(alive).await == "1");
        }
        having == servers.len()
    };
    for step in 1..=5 {
        eventually_async("all servers have the lock", all_have_it).await;
        servers[0].step_clock(STEP * step);
        let error = theirs.lock("r").try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended { .. }), "{error}");
        assert!(held.is_valid());
    }
    assert!(held.release().await.unwrap());
}
