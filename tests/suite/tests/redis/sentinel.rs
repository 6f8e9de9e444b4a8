//! Masters that Redis Sentinel watches over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, LockManagerBuilder, NodeError, RedisNode};
use lock_history::Referee;
use lock_support::{Proxy, RedisServer, Sentinel, all_nodes_vote, eventually, eventually_async, free_port};
use tokio::time::{Instant, sleep, timeout};

/// Also how long a promoted replica grants nothing, at least.
const TTL: Duration = Duration::from_millis(500);

fn builder() -> LockManagerBuilder {
    LockManager::builder().ttl(TTL).max_ttl(TTL).node_timeout(TTL / 4)
}

/// What keeps the only node from voting.
async fn problem(builder: LockManagerBuilder) -> NodeError {
    match builder.connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err() {
        ConnectError::NoQuorum { mut unreachable, .. } => unreachable.remove(0).1,
        other => panic!("{other}"),
    }
}

/// What becomes of the attempts of all managers.
#[derive(Default)]
struct Load {
    referee: Referee,
    granted: AtomicU32,
    refused: AtomicU32,
    is_over: AtomicBool,
}

/// Acquires again and again until it is over. Fails for an error that no failover explains.
async fn acquire_until_over(locks: LockManager, load: Arc<Load>) {
    let Load { referee, granted, refused, is_over } = &*load;
    while !is_over.load(Ordering::Relaxed) {
        match locks.lock("r").wait(TTL / 5).acquire().await {
            Ok(guard) => {
                if referee.enter(&guard) {
                    sleep(Duration::from_millis(2)).await;
                    referee.leave(&guard);
                    granted.fetch_add(1, Ordering::Relaxed);
                }
                // That may fail: the master may be gone.
                _ = guard.release().await;
            }
            Err(LockError::NoQuorum { .. } | LockError::Contended { .. } | LockError::Expired { .. }) => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

async fn some_are_granted(load: &Load) {
    let before = load.granted.load(Ordering::Relaxed);
    eventually("some are granted", || load.granted.load(Ordering::Relaxed) > before + 5).await;
}

// promise: replicas
#[tokio::test]
async fn a_failover_under_load_leads_to_no_second_holder_and_locks_are_granted_again() {
    let mut master = RedisServer::start().await;
    let replica = master.start_replica().await;
    let sentinel = Sentinel::start("mymaster", &master, 1).await;
    // Of several sentinels, those that answer are enough.
    let sentinels = || [format!("127.0.0.1:{}", free_port()), sentinel.address()];
    let connect = || builder().sentinel(sentinels(), "mymaster").connect();
    let managers = [connect().await.unwrap(), connect().await.unwrap()];
    assert_eq!(managers[0].health().await.nodes[0].name, "sentinel:mymaster");

    let load = Arc::new(Load::default());
    let callers = managers.clone().map(|locks| tokio::spawn(acquire_until_over(locks, Arc::clone(&load))));
    some_are_granted(&load).await;
    let held = managers[0].lock("held").max_hold(Duration::from_secs(60)).acquire().await.unwrap();
    let waiting = managers[1].lock("waited for").wait(Duration::from_secs(30));
    eventually_async("the replica has the lock", async || replica.keys("lock:held").await.len() == 1).await;
    master.kill();
    let killed = Instant::now();
    timeout(TTL * 2, held.lost()).await.expect("the lease ends without its master");
    // Tries before anybody knows of the failover, and waits for its end: for the quarantine, too.
    let granted = loop {
        match waiting.clone().acquire().await {
            Ok(granted) => break granted,
            Err(LockError::NoQuorum { .. } | LockError::Expired { .. }) => sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
        assert!(killed.elapsed() < Duration::from_secs(20), "no lock is granted after the failover");
    };
    assert_eq!(replica.query::<Vec<redis::Value>>("ROLE").await.len(), 3, "the replica is the master now");
    assert!(replica.keys("lock:waited*").await.len() == 1 && granted.is_valid());
    all_nodes_vote(&managers[0]).await;
    assert!(managers[0].lock("held").acquire().await.unwrap().token() > held.token());

    some_are_granted(&load).await;
    load.is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(load.refused.load(Ordering::Relaxed) > 0, "the failover was noticed");
    load.referee.assert_no_violations();
}

// promise: replicas
#[tokio::test]
async fn a_lock_that_never_reached_the_replica_is_granted_to_nobody_else_while_it_lives() {
    // Longer than the failover takes.
    let ttl = TTL * 4;
    let mut master = RedisServer::start().await;
    let replication = Proxy::open(master.address()).await;
    let replica = master.start_standby(&replication, &[]).await;
    let sentinel = Sentinel::start("mymaster", &master, 1).await;
    let connect = || builder().ttl(ttl).max_ttl(ttl).sentinel([sentinel.address()], "mymaster").connect();
    let (ours, theirs) = (connect().await.unwrap(), connect().await.unwrap());
    eventually_async("the replica has the record", async || replica.keys("lock:{node}").await.len() == 1).await;
    replication.hold();
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    master.kill();
    let granted = loop {
        match theirs.lock("r").try_acquire().await {
            Ok(granted) => break granted,
            Err(LockError::NoQuorum { .. } | LockError::Expired { .. }) => sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("the replica has no lock: {error}"),
        }
    };
    assert!(!held.is_valid(), "two holders");
    assert!(granted.token() > held.token());
}

// promise: replicas
#[tokio::test]
async fn the_address_that_a_majority_of_the_sentinels_names_is_taken() {
    let (master, former) = (RedisServer::start().await, RedisServer::start().await);
    let sentinels = join_all([&former, &master, &master].map(|named| Sentinel::start("mymaster", named, 0))).await;
    let locks = builder().sentinel(sentinels.iter().map(Sentinel::address), "mymaster").connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert_eq!((master.keys("lock:r").await.len(), former.keys("lock:r").await.len()), (1, 0));
    assert!(guard.release().await.unwrap());
    // Two that disagree may be on both sides of a split.
    let two = sentinels[..2].iter().map(Sentinel::address);
    let text = problem(builder().sentinel(two, "mymaster")).await.to_string();
    assert!(text.contains("do not agree") && text.contains(&former.address()), "{text}");
}

// promise: replicas
#[tokio::test]
async fn a_login_of_the_master_is_taken_from_its_url() {
    let master = RedisServer::start().await;
    master.query::<String>("ACL SETUSER app on >s3cret ~lock:* &lock:* +@all").await;
    let sentinel = Sentinel::start("mymaster", &master, 0).await;
    let with = |url: &str| builder().sentinel([format!("redis://{}", sentinel.address())], url);
    let locks = with("redis://app:s3cret@mymaster/3").connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    let error = with("redis://app:wrong@mymaster").connect().await.unwrap_err();
    let ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Login { .. }, node }) = &error else {
        panic!("{error}")
    };
    assert_eq!(node, "sentinel:mymaster");
}

// promise: replicas
#[tokio::test]
async fn what_keeps_a_sentinel_from_naming_a_master_is_said() {
    let (master, other) = (RedisServer::start().await, RedisServer::start().await);
    let sentinel = Sentinel::start("mymaster", &master, 0).await;
    let dead = format!("127.0.0.1:{}", free_port());

    let error = problem(builder().sentinel([&dead], "mymaster")).await;
    assert!(matches!(error, NodeError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("no sentinel of \"mymaster\" answers") && text.contains(&dead), "{text}");

    let text = problem(builder().sentinel([other.address()], "mymaster")).await.to_string();
    assert!(text.contains("it is no sentinel"), "{text}");

    let error = builder().sentinel([sentinel.address(), dead.clone()], "anothermaster").connect().await.unwrap_err();
    let ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) = &error else { panic!("{error}") };
    let (master_name, sentinels) = ("anothermaster".to_owned(), sentinel.address());
    assert_eq!(refusal, &Refusal::UnknownMaster { master: master_name, sentinels });
    assert!(error.to_string().contains("sentinel monitor"), "{error}");

    assert!(matches!(
        builder().sentinel([""; 0], "mymaster").connect_lazy(),
        Err(ConfigError::InvalidUrl(error)) if error.reason.contains("at least one sentinel")
    ));

    // The sentinel goes on naming it for a while.
    master.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port())).await;
    let error = problem(builder().sentinel([sentinel.address()], "mymaster")).await;
    let text = error.to_string();
    assert!(text.contains(&master.address()) && text.contains("which is no master"), "{text}");
    assert!(RedisNode::from_sentinel([sentinel.address()], "mymaster").is_ok());
}
