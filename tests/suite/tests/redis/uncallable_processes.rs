//! Processes that the masters cannot call: they take turns all the same, and say what is wrong.

use futures_util::future::join_all;
use lock_support::{RedisCluster, alone, eventually};

use crate::waiter::Waiter;

/// How many cycles are shared.
const CYCLES: usize = 210;
const PROCESSES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_cannot_be_called_share_a_lock_and_say_why_once() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let mut masters = Vec::new();
    for server in &cluster.servers {
        // All that a client may need to be called is missing.
        let user = "ACL SETUSER deaf on >secret ~* &* +@all -subscribe -psubscribe";
        assert_eq!(server.query::<String>(user).await, "OK");
        masters.push(format!("redis://deaf:secret@{}", server.address()));
    }
    let mut waiters = join_all((0..PROCESSES).map(|_| Waiter::start("r", &masters))).await;
    for waiter in &mut waiters {
        waiter.ask(CYCLES).await;
    }
    eventually("the processes had enough cycles", || waiters.iter().map(Waiter::granted).sum::<usize>() >= CYCLES)
        .await;
    let shares: Vec<_> = waiters.iter().map(Waiter::granted).collect();
    let share = CYCLES / PROCESSES;
    assert!(shares.iter().all(|cycles| cycles.abs_diff(share) * 10 <= share * 3), "unequal shares: {shares:?}");
    for waiter in waiters {
        let log = waiter.kill().await;
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("no permissions"), "{log}");
    }
}
