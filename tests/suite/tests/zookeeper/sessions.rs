use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Operation, OwnerId, QueuePosition, Reply};
use lock_core::{LockError, LockGuard, LockManager};
use lock_support::{
    Fate, Proxy, StalledRuntime, ZooKeeperServer, all_nodes_vote, eventually, eventually_async, on_one_thread,
    whatever_becomes_of_it,
};
use tokio::time::Instant;

use crate::set::{MAX_TTL, builder, connect, node};
use crate::side::{EPOCH, Side, TTL, acquire, acquire_since};

// promise: zookeeper
#[tokio::test]
async fn a_lease_is_lost_in_time_when_the_server_is_gone_for_longer_than_the_session() {
    let mut server = ZooKeeperServer::start().await;
    let (ours, theirs) = (connect(&server.address()).await, connect(&server.address()).await);
    let guard = ours.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let began = Instant::now();
    server.kill();
    guard.lost().await;
    assert!(began.elapsed() < MAX_TTL, "{:?}", began.elapsed());
    // The sessions end, and the managers open new ones.
    tokio::time::sleep(MAX_TTL).await;
    server.start_again().await;
    all_nodes_vote(&theirs).await;
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(next.token() > guard.token());
    assert!(!guard.release().await.unwrap_or(false));
    assert!(next.is_valid());
    next.release().await.unwrap();
    all_nodes_vote(&ours).await;
    ours.lock("r").acquire().await.unwrap().release().await.unwrap();
}

// promise: zookeeper
#[tokio::test]
async fn a_connection_that_is_lost_for_a_moment_costs_no_lock() {
    let mut server = ZooKeeperServer::start().await;
    let locks = connect(&server.address()).await;
    let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    server.pause();
    tokio::time::sleep(MAX_TTL / 5).await;
    server.resume();
    let token = guard.token();
    let other = connect(&server.address()).await;
    assert!(other.lock("r").try_acquire().await.is_err());
    assert!(guard.is_valid() && guard.token() == token);
    assert!(guard.release().await.unwrap());
    server.kill();
}

// promise: zookeeper
#[tokio::test]
async fn a_server_that_hangs_is_left_for_another_and_costs_no_lock() {
    let server = ZooKeeperServer::start_with("maxSessionTimeout=60000\n").await;
    // To the client, three servers.
    let proxies = join_all((0..3).map(|_| Proxy::open(server.address()))).await;
    let ports: Vec<_> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let ttl = Duration::from_secs(30);
    let locks = builder(&ports.join(",")).max_ttl(ttl).connect_lazy().unwrap();
    all_nodes_vote(&locks).await;
    let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
    // One of them has the session, and the next that it moves to.
    for hangs in &proxies {
        hangs.hold();
        eventually_async("another server answers", async || locks.lock("other").try_acquire().await.is_ok()).await;
        assert!(guard.is_valid());
        // What the client sent to it in vain arrives now, and may take the session from the other one for a moment.
        hangs.pass();
    }
    drop(guard);
    eventually_async("the lock is released", async || locks.lock("r").try_acquire().await.is_ok()).await;
}

/// Tries again after a time without a quorum: there is none while there is no connection, and for a tick after so many at once have kept
/// this thread from giving the servers signs of life.
async fn acquire_in_the_end(locks: &LockManager, resource: String) -> LockGuard {
    loop {
        match locks.lock(&resource).wait(Duration::from_secs(60)).acquire().await {
            Ok(guard) => return guard,
            Err(error) => assert!(matches!(error, LockError::NoQuorum { .. }), "{error:?}"),
        }
    }
}

// promise: zookeeper
#[tokio::test]
async fn a_connection_that_is_lost_while_much_is_waited_for_costs_no_lock() {
    const WAITERS: usize = 400;
    let server = ZooKeeperServer::start().await;
    let proxy = Proxy::open(server.address()).await;
    let through = builder(&format!("127.0.0.1:{}", proxy.port())).max_ttl(Duration::from_secs(10));
    let (ours, theirs) = (through.connect_lazy().unwrap(), connect(&server.address()).await);
    all_nodes_vote(&ours).await;
    let long = |at: usize| format!("{at:03}{}", "x".repeat(400));
    let held = join_all((0..WAITERS).map(|at| acquire_in_the_end(&theirs, long(at)))).await;
    let guard = ours.lock("r").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    let waiting: Vec<_> = (0..WAITERS)
        .map(|at| {
            let (ours, resource) = (ours.clone(), long(at));
            tokio::spawn(async move { drop(acquire_in_the_end(&ours, resource).await) })
        })
        .collect();
    let mut watches = None;
    eventually_async("all that is watched is watched", async || {
        let before = watches;
        tokio::time::sleep(Duration::from_millis(200)).await;
        watches = server.watches();
        watches > Some(100) && watches == before
    })
    .await;
    proxy.lead_to("127.0.0.1:1".into());
    eventually_async("the connection is lost", async || ours.lock("other").try_acquire().await.is_err()).await;
    proxy.lead_to(server.address());
    eventually_async("the session is there again", async || ours.lock("other").try_acquire().await.is_ok()).await;
    assert!(guard.is_valid());
    assert!(guard.release().await.unwrap());
    // Those that there is no room to watch are looked at.
    drop(held);
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

// promise: zookeeper
#[test]
fn the_lock_of_a_process_that_dies_is_free_when_its_session_ends_and_not_before() {
    let runtime = lock_support::on_one_thread();
    let address = runtime.block_on(ZooKeeperServer::shared());
    let began = std::time::Instant::now();
    let (guard, _stalled) = StalledRuntime::after(Fate::Dropped, async {
        let locks = connect(&address).await;
        let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
        // Nobody is to move the session to another runtime: so does a process that is gone.
        std::mem::forget(locks);
        std::mem::ManuallyDrop::new(guard)
    });
    let granted = std::time::Instant::now();
    runtime.block_on(async {
        let locks = connect(&address).await;
        let next = locks.lock("r").acquire().await.unwrap();
        assert!(!guard.is_valid());
        assert!(began.elapsed() >= MAX_TTL && granted.elapsed() < MAX_TTL * 3, "{:?}", granted.elapsed());
        next.release().await.unwrap();
    });
}

// promise: zookeeper
#[test]
fn a_holder_that_was_stopped_for_longer_than_its_session_finds_its_lease_lost() {
    let runtime = lock_support::on_one_thread();
    let address = runtime.block_on(ZooKeeperServer::shared());
    let ((locks, guard), mut stalled) = StalledRuntime::after(Fate::Blocked, async {
        let locks = connect(&address).await;
        let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
        (locks, guard)
    });
    let next = runtime.block_on(async {
        let others = connect(&address).await;
        let next = others.lock("r").acquire().await.unwrap();
        assert!(!guard.is_valid() && next.token() > guard.token());
        (others, next)
    });
    stalled.run_again(Duration::from_millis(300));
    runtime.block_on(async {
        assert!(!guard.is_valid());
        assert!(!guard.release().await.unwrap_or(false));
        let (others, next) = next;
        assert!(next.is_valid(), "what was late took nothing from the successor");
        assert!(next.release().await.unwrap());
        // The manager works on, on this runtime.
        let again = locks.lock("r").acquire().await.unwrap();
        eventually("it is valid", || again.is_valid()).await;
        assert!(others.lock("r").try_acquire().await.is_err());
    });
}

// promise: exclusion, any-runtime
#[test]
fn a_session_that_is_left_behind_on_a_runtime_takes_no_lock_from_its_holder() {
    let address = on_one_thread().block_on(ZooKeeperServer::shared());
    let ttl = MAX_TTL * 2;
    whatever_becomes_of_it(|fate| {
        let connect = async || {
            let locks = builder(&address).max_ttl(ttl).prefix(format!("{fate:?}:")).connect_lazy().unwrap();
            all_nodes_vote(&locks).await;
            locks
        };
        let ((locks, guard), mut stalled) = StalledRuntime::after(fate, async {
            let locks = connect().await;
            let guard = locks.lock("r").ttl(ttl).renew(false).acquire().await.unwrap();
            (locks, guard)
        });
        let here = on_one_thread();
        // When this is granted, the manager has another session, which it has on this runtime.
        drop(here.block_on(locks.lock("another").acquire()).unwrap());
        assert!(guard.is_valid());
        stalled.run_again(Duration::from_millis(300));
        here.block_on(async {
            let others = connect().await;
            while guard.is_valid() {
                let rival = others.lock("r").try_acquire().await;
                assert!(rival.is_err() || !guard.is_valid(), "{fate:?}");
                tokio::time::sleep(ttl / 200).await;
            }
            others.lock("r").acquire().await.unwrap().release().await.unwrap();
        });
    });
}

// promise: exclusion, no-leaks
#[tokio::test]
async fn a_session_that_is_given_up_is_closed_when_none_of_its_locks_can_be_valid() {
    let (address, ttl) = (ZooKeeperServer::shared().await, Duration::from_secs(1));
    let [owner, next] = [1, 2].map(OwnerId::from_bits);
    for is_dropped in [false, true] {
        for is_held in [false, true] {
            let node = || node(&format!("{address}/{is_dropped}/{is_held}"));
            let side = Side::new(node()).await;
            let other = side.beside(node()).await;
            let began = Instant::now();
            assert_eq!(side.send(0, EPOCH, acquire(owner, ttl)).await, Ok(Reply::Granted { token: 1 }));
            if !is_held {
                let release = Operation::Release { owner, position: QueuePosition::None };
                assert_eq!(side.send(0, EPOCH, release).await, Ok(Reply::Released));
            }
            // A place in a queue, which nothing ends but the session.
            assert!(matches!(other.send(1, EPOCH, acquire(next, TTL)).await, Ok(Reply::Granted { .. })));
            let waiting = acquire_since(NonZeroU64::new(1), owner, ttl);
            assert!(matches!(side.send(1, EPOCH, waiting).await, Ok(Reply::Held { .. })));
            assert_eq!(other.look(None).await.unwrap()[1].waiters, 1);

            match is_dropped {
                // Where there is no runtime.
                true => std::thread::spawn(move || drop(side.node)).join().unwrap(),
                false => side.node.disconnect(),
            }
            let is_closed = async || other.look(None).await.unwrap()[1].waiters == 0;
            eventually_async("the session is closed", is_closed).await;
            let lasted = began.elapsed();
            assert!(lasted < TTL && (lasted >= ttl || !is_held), "{is_dropped} {is_held} {lasted:?}");
            assert!(matches!(other.send(0, EPOCH, acquire(next, TTL)).await, Ok(Reply::Granted { .. })));
        }
    }
}
