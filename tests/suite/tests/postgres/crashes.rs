//! Servers that crash while readers and writers of several processes queue for a lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager};
use lock_history::Referee;
use lock_support::{PostgresServer, Proxy, all_nodes_vote, eventually_async};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const HOLD: Duration = Duration::from_millis(10);
const PROCESSES: usize = 3;
/// Of each process: every other one reads.
const CALLERS: usize = 6;
/// A waiter that is not woken tries again after a second.
const WOKEN: Duration = Duration::from_millis(900);
const PATIENCE: Duration = Duration::from_secs(30);

async fn processes(urls: &[String]) -> Vec<LockManager> {
    let connect = async |_| {
        let builder = LockManager::builder().postgres(urls);
        let locks = builder.ttl(TTL).max_ttl(TTL).wait(WAIT).connect_lazy().unwrap();
        // Servers that have just started may take longer than `connect` waits.
        all_nodes_vote(&locks).await;
        locks
    };
    join_all((0..PROCESSES).map(connect)).await
}

/// Who held the lock, and how often each caller had it.
#[derive(Default)]
struct Holders {
    referee: Referee,
    turns: [AtomicUsize; PROCESSES * CALLERS],
    outages: AtomicUsize,
}

impl Holders {
    fn turns(&self) -> Vec<usize> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }
}

/// Takes turns for ever.
async fn take_turns(caller: usize, locks: &LockManager, holders: &Holders) {
    loop {
        let request = if caller % 2 == 1 { locks.read("r") } else { locks.lock("r") };
        match request.acquire().await {
            Ok(guard) if holders.referee.enter(&guard) => {
                holders.turns[caller].fetch_add(1, Ordering::Relaxed);
                sleep(HOLD).await;
                holders.referee.leave(&guard);
            }
            Ok(_lost) => {}
            Err(LockError::NoQuorum { .. } | LockError::Expired { .. }) => {
                holders.outages.fetch_add(1, Ordering::Relaxed);
                sleep(HOLD).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Everybody has another turn.
async fn all_take_turns(holders: &Holders) {
    let before = holders.turns();
    let has_had_one = || holders.turns().iter().zip(&before).all(|(turns, before)| turns > before);
    let began = Instant::now();
    while !has_had_one() {
        assert!(began.elapsed() < PATIENCE, "since {before:?}: {:?}", holders.turns());
        sleep(HOLD).await;
    }
}

/// Kills the process of one of the connections, when there are some again.
async fn crash(server: &PostgresServer) {
    let one = format!("SELECT pid FROM pg_stat_activity WHERE {CLIENT} ORDER BY random() LIMIT 1");
    eventually_async("one is killed", async || {
        let pid = server.query(&one).await;
        !pid.is_empty() && std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success()
    })
    .await;
}

const CLIENT: &str = "backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// Lets something happen to the servers, again and again, while all callers take turns.
async fn beside(servers: &mut [PostgresServer], mut fault: impl AsyncFnMut(&mut [PostgresServer], usize)) -> usize {
    let urls: Vec<_> = servers.iter().map(PostgresServer::url).collect();
    beside_urls(&urls, async |round| fault(servers, round).await).await
}

/// The same for servers at these URLs.
async fn beside_urls(urls: &[String], mut fault: impl AsyncFnMut(usize)) -> usize {
    let (processes, holders) = (processes(urls).await, Holders::default());
    let callers =
        join_all((0..PROCESSES * CALLERS).map(|caller| take_turns(caller, &processes[caller / CALLERS], &holders)));
    let faults = async {
        all_take_turns(&holders).await;
        for round in 0..4 {
            fault(round).await;
            all_take_turns(&holders).await;
        }
        holders.outages.load(Ordering::Relaxed)
    };
    let outages = tokio::select! {
        _ = callers => unreachable!(),
        outages = faults => outages,
    };
    holders.referee.assert_no_violations();
    are_woken(&processes).await;
    outages
}

/// Each process is woken by the releases of the others.
async fn are_woken(processes: &[LockManager]) {
    for (holder, waiter) in (0..PROCESSES).map(|holder| (holder, (holder + 1) % PROCESSES)) {
        eventually_async("a release wakes", async || {
            let held = processes[holder].lock("r").acquire().await.unwrap();
            let waiting = tokio::spawn(processes[waiter].lock("r").acquire());
            sleep(Duration::from_millis(100)).await;
            assert!(held.release().await.unwrap());
            let woken = timeout(WOKEN / 2, waiting).await;
            woken.is_ok_and(|guard| guard.unwrap().is_ok())
        })
        .await;
    }
}

// promise: postgresql, turns
#[tokio::test]
async fn nobody_loses_its_turn_when_a_backend_of_the_only_server_is_killed_or_terminated() {
    let mut servers = [PostgresServer::start().await];
    beside(&mut servers, async |servers, round| match round % 2 {
        // The server ends the others, and recovers.
        0 => crash(&servers[0]).await,
        // One alone: it may be the one that listens.
        _ => {
            let terminated = format!("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE {CLIENT} ORDER BY random() LIMIT 1) one");
            eventually_async("one is terminated", async || servers[0].query(&terminated).await == "1").await;
        }
    })
    .await;
}

// promise: postgresql, turns
#[tokio::test]
async fn nobody_loses_its_turn_when_the_only_server_is_stopped_at_once_and_started() {
    let mut servers = [PostgresServer::start().await];
    beside(&mut servers, async |servers, _| {
        servers[0].shut_down_immediately().await;
        servers[0].start_again().await;
    })
    .await;
}

// promise: postgresql, turns, minority-faults
#[tokio::test]
async fn a_server_of_three_crashes_unnoticed() {
    let mut servers = [PostgresServer::start().await, PostgresServer::start().await, PostgresServer::start().await];
    let outages = beside(&mut servers, async |servers, round| match round % 2 {
        0 => crash(&servers[0]).await,
        _ => {
            servers[0].shut_down_immediately().await;
            servers[0].start_again().await;
        }
    })
    .await;
    assert_eq!(outages, 0);
}

// promise: postgresql, turns, quarantine
#[tokio::test]
async fn nobody_loses_its_turn_when_all_servers_crash_at_once() {
    let mut servers = [PostgresServer::start().await, PostgresServer::start().await, PostgresServer::start().await];
    beside(&mut servers, async |servers, round| {
        for server in &mut *servers {
            match round % 2 {
                0 => crash(server).await,
                _ => server.shut_down_immediately().await,
            }
        }
        if round % 2 == 1 {
            join_all(servers.iter_mut().map(PostgresServer::start_again)).await;
        }
    })
    .await;
}

// promise: postgresql, turns, quarantine
#[tokio::test]
async fn nobody_loses_its_turn_when_a_standby_is_promoted_behind_the_name_of_the_only_server() {
    let address = |server: &PostgresServer| format!("127.0.0.1:{}", server.port());
    let mut primary = PostgresServer::start().await;
    let name = Proxy::open(address(&primary)).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", name.port());
    let outages = beside_urls(&[url], async |round| {
        let standby = PostgresServer::standby_of(&primary).await;
        match round % 2 {
            0 => primary.kill(),
            // In order: its log ends where that of the standby begins to differ.
            _ => primary.shut_down().await,
        }
        assert_eq!(standby.query("SELECT pg_promote()").await, "t");
        name.lead_to(address(&standby));
        primary = standby;
    })
    .await;
    assert!(outages > 0, "each of them sat out a quarantine");
}
