//! A server that does not keep up with the others.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockManager, MemoryNode, NodeError};
use lock_support::PostgresServer;
use tokio::task::yield_now;
use tokio::time::sleep;

const TASKS: usize = 16;
/// With their releases, many more requests than may wait for a node.
const LOCKS: usize = 40_000;

// promise: postgresql, overload
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_that_were_held_without_a_slow_server_do_not_keep_it_from_voting() {
    let (server, memory) = (PostgresServer::start().await, [MemoryNode::new(), MemoryNode::new()]);
    let builder = LockManager::builder().postgres([server.url()]).nodes(memory.clone());
    let locks = builder.wait(Duration::from_secs(10)).connect().await.unwrap();
    let tasks = join_all((0..TASKS).map(|task| {
        let locks = locks.clone();
        tokio::spawn(async move {
            for lock in 0..LOCKS / TASKS {
                drop(locks.lock(format!("{task} {lock}")).acquire().await.unwrap());
                yield_now().await;
            }
        })
    }));
    // Not for so long that its connection is given up.
    let slow = async {
        loop {
            server.stop();
            sleep(Duration::from_millis(95)).await;
            server.cont();
            sleep(Duration::from_millis(5)).await;
        }
    };
    let votes = async {
        loop {
            let health = locks.health().await;
            assert!(health.nodes.iter().all(|node| node.problem != Some(NodeError::Overloaded)), "{health:?}");
        }
    };
    tokio::select! {
        tasks = tasks => tasks.into_iter().for_each(Result::unwrap),
        () = slow => unreachable!(),
        () = votes => unreachable!(),
    }
    server.cont();
    memory[0].set_down(true);
    drop(locks.lock("r").acquire().await.unwrap());
}
