//! Servers whose clocks step.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, LockManagerBuilder};
use lock_support::{PostgresServer, eventually_async};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

const TTL: Duration = Duration::from_millis(1500);
/// Further than a lock lives.
const STEP: Duration = Duration::from_millis(1600);
const ALIVE: &str = "SELECT count(*) FROM locks.lock WHERE expires > clock_timestamp()";

async fn three_servers() -> Vec<PostgresServer> {
    join_all((0..3).map(|_| PostgresServer::start_with_clock(&[]))).await
}

fn builder(servers: &[PostgresServer]) -> LockManagerBuilder {
    LockManager::builder().postgres(servers.iter().map(PostgresServer::url)).ttl(TTL).max_ttl(TTL)
}

// promise: exclusion, postgresql
#[tokio::test]
async fn one_of_three_clocks_may_step_while_the_others_have_the_lock() {
    let servers = three_servers().await;
    let (ours, theirs) = (builder(&servers).connect().await.unwrap(), builder(&servers).connect().await.unwrap());
    let held = ours.lock("r").acquire().await.unwrap();
    let all_have_it = async || {
        let mut having = 0;
        for server in &servers {
            having += usize::from(server.query(ALIVE).await == "1");
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

/// A hold of one of several managers that contend: from when to when it was valid, and how many servers had the lock at the end.
struct Hold {
    began: Instant,
    valid_until: Instant,
    having: usize,
}

/// Four managers contend for a lock, and each holds it for a moment, again and again.
async fn contend(servers: &[PostgresServer], hold: Duration, period: Duration) -> Vec<Hold> {
    let ends = Instant::now() + period;
    let managers = join_all((0..4).map(async |_| {
        let mut clients = Vec::new();
        for server in servers {
            let (client, wire) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
            tokio::spawn(wire);
            clients.push(client);
        }
        (builder(servers).wait(TTL).connect().await.unwrap(), clients)
    }));
    let has_it = async |client: &Client| client.query_one(ALIVE, &[]).await.unwrap().get::<_, i64>(0) == 1;
    let holds = managers.await.into_iter().map(async |(locks, clients)| {
        let mut holds = Vec::new();
        while Instant::now() < ends {
            // The others may have had it for all that time.
            let Ok(held) = locks.lock("r").acquire().await else { continue };
            let began = Instant::now();
            let mut valid_until = began;
            while began.elapsed() < hold && held.is_valid() {
                valid_until = Instant::now();
                sleep(hold / 50).await;
            }
            let having = join_all(clients.iter().map(has_it)).await.into_iter().filter(|has| *has).count();
            assert!(held.release().await.is_ok());
            holds.push(Hold { began, valid_until, having });
        }
        holds
    });
    let mut holds: Vec<_> = join_all(holds).await.into_iter().flatten().collect();
    holds.sort_by_key(|hold| hold.began);
    holds
}

// promise: exclusion, postgresql
#[tokio::test]
async fn a_lock_that_processes_have_in_turn_is_on_every_server_soon() {
    let servers = three_servers().await;
    let holds = contend(&servers, TTL / 12, Duration::from_secs(4)).await;
    let bare = holds.iter().filter(|hold| hold.having < servers.len()).count();
    println!("{bare} of {} holds were not on every server at their end", holds.len());
    assert!(holds.len() >= 10 && bare * 5 <= holds.len(), "{bare} of {}", holds.len());
}

// promise: exclusion, postgresql
#[tokio::test]
#[ignore = "long: bash tests/run.sh --long"]
async fn a_clock_that_steps_lets_hardly_anybody_in_beside_a_holder() {
    let servers = three_servers().await;
    let stepping = async {
        for step in 1..=50 {
            sleep(TTL / 5).await;
            servers[0].step_clock(STEP * step);
        }
    };
    let (holds, ()) = tokio::join!(contend(&servers, TTL / 30, TTL * 10), stepping);
    let overlaps = holds.windows(2).filter(|pair| pair[1].began < pair[0].valid_until).count();
    println!("{overlaps} overlaps in {} holds", holds.len());
    assert!(overlaps * 50 <= holds.len(), "{overlaps} of {}", holds.len());
}
