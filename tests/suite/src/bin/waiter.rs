//! A process that waits for a lock, for the tests of what others notice when it dies, hangs, or cannot be called:
//!
//! ```text
//! waiter RESOURCE URL...
//! ```
//!
//! A URL with several hosts is one of a Redis Cluster, on whose servers there are shards.
//!
//! Prints `ready` when it is connected. For each line that it reads, it waits for the lock, prints `granted`, and releases the
//! lock a little later. Logs warnings to its standard error. Ends with its standard input.

use std::error::Error;
use std::time::Duration;

use lock_core::LockManager;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::sleep;

/// How long it holds the lock.
const HOLD: Duration = Duration::from_millis(2);
/// How long it waits for the lock at most.
const WAIT: Duration = Duration::from_secs(60);
/// Enough for each of three servers to have some.
const SHARDS: u32 = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).with_ansi(false).init();
    let mut arguments = std::env::args().skip(1);
    let resource = arguments.next().ok_or("usage: waiter RESOURCE URL...")?;
    let (clusters, servers): (Vec<_>, Vec<_>) = arguments.partition(|url| url.contains(','));
    let shards = if clusters.is_empty() { 1 } else { SHARDS };
    let builder = LockManager::builder().redis(servers).redis_cluster(clusters).shards(shards);
    let locks = builder.node_timeout(Duration::from_secs(1)).wait(WAIT).connect().await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let guard = locks.lock(&resource).acquire().await?;
        println!("granted");
        sleep(HOLD).await;
        guard.release().await?;
    }
    Ok(())
}
