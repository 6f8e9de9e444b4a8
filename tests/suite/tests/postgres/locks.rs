//! Locks in PostgreSQL: alone, on three servers, beside Redis, and between processes.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, LockManagerBuilder, MemoryNode, PostgresNode};
use lock_history::Referee;
use lock_support::{Events, PostgresServer, RedisServer, eventually_async, try_succession};
use tokio::time::{Instant, timeout};

const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(30);
/// A waiter that is not woken tries again after a second.
const WOKEN: Duration = Duration::from_millis(900);

fn builder(servers: &[PostgresServer]) -> LockManagerBuilder {
    LockManager::builder().postgres(servers.iter().map(PostgresServer::url)).ttl(TTL).max_ttl(TTL).wait(WAIT)
}

/// Acquires, renews, releases, and counts.
async fn works(builder: impl Fn() -> LockManagerBuilder) {
    let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let first = ours.lock("r").ttl(Duration::from_millis(300)).acquire().await.unwrap();
    assert!(matches!(theirs.lock("r").try_acquire().await, Err(LockError::Contended { .. })));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(first.is_valid(), "renewed three times");
    assert!(matches!(theirs.lock("r").try_acquire().await, Err(LockError::Contended { .. })));
    let token = first.token();
    assert!(first.release().await.unwrap());
    let second = theirs.lock("r").try_acquire().await.unwrap();
    assert!(second.token() > token);
    assert!(second.release().await.unwrap());
    assert!(ours.health().await.nodes.iter().all(|node| node.admitted));
}

// promise: postgresql
#[tokio::test]
async fn a_lock_in_one_database_is_held_renewed_released_and_counted() {
    let servers = [PostgresServer::start().await];
    works(|| builder(&servers)).await;
    assert_eq!(servers[0].query("SELECT count(*) FROM locks.lock WHERE expires > clock_timestamp()").await, "0");
    // Without waiting for the disk, the same.
    let node = || PostgresNode::from_url(&servers[0].url()).unwrap().synchronous_commit(false);
    works(|| LockManager::builder().nodes([node()]).prefix("fast:")).await;
}

// promise: postgresql
#[tokio::test]
async fn a_lock_on_three_servers_outlives_one_of_them() {
    let mut servers = [PostgresServer::start().await, PostgresServer::start().await, PostgresServer::start().await];
    works(|| builder(&servers)).await;
    let locks = builder(&servers).connect().await.unwrap();
    let held = locks.lock("r").acquire().await.unwrap();
    let token = held.token();
    servers[1].kill();
    assert!(held.release().await.unwrap());
    assert!(locks.lock("r").acquire().await.unwrap().token() > token);
}

// promise: postgresql
#[tokio::test]
async fn a_set_of_redis_and_postgresql_has_one_holder_at_a_time() {
    let (postgres, redis) = (PostgresServer::start().await, RedisServer::start().await);
    let memory = MemoryNode::new();
    let builder =
        || LockManager::builder().postgres([postgres.url()]).redis([redis.url()]).nodes([memory.clone()]).wait(WAIT);
    works(builder).await;
    let (referee, managers) = (Referee::default(), join_all((0..3).map(|_| builder().connect())).await);
    join_all(managers.iter().map(async |locks| {
        for _ in 0..10 {
            let guard = locks.as_ref().unwrap().lock("r").acquire().await.unwrap();
            assert!(referee.enter(&guard));
            referee.leave(&guard);
            guard.release().await.unwrap();
        }
    }))
    .await;
    assert_eq!((referee.entered(), referee.violations()), (30, Vec::<String>::new()));
}

// promise: postgresql
#[tokio::test]
async fn a_waiter_of_another_process_is_woken_by_a_release() {
    let servers = [PostgresServer::start().await];
    let (ours, theirs) = (builder(&servers).connect().await.unwrap(), builder(&servers).connect().await.unwrap());
    let held = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    eventually_queued(&ours, 1).await;
    eventually_async("the waiter listens", async || {
        servers[0].query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'").await
            == "1"
    })
    .await;
    let released = Instant::now();
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert!(released.elapsed() < WOKEN, "{:?}", released.elapsed());
}

// promise: postgresql
#[tokio::test]
async fn readers_of_two_processes_share_a_lock_and_a_writer_waits_for_them() {
    let servers = [PostgresServer::start().await];
    let (ours, theirs) = (builder(&servers).connect().await.unwrap(), builder(&servers).connect().await.unwrap());
    let readers = [ours.read("r").acquire().await.unwrap(), theirs.read("r").acquire().await.unwrap()];
    let report = ours.inspect("r").await.unwrap();
    assert_eq!(report.nodes[0].readers.len(), 2, "{report:?}");
    let writing = tokio::spawn(theirs.lock("r").acquire());
    eventually_queued(&ours, 1).await;
    let third = builder(&servers).connect().await.unwrap();
    assert!(matches!(third.read("r").wait(Duration::ZERO).acquire().await, Err(LockError::Contended { .. })));
    for reader in readers {
        assert!(!writing.is_finished());
        reader.release().await.unwrap();
    }
    drop(writing.await.unwrap().unwrap());
}

// promise: postgresql
#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_holder_that_was_evicted() {
    let servers = [PostgresServer::start().await];
    let (ours, theirs) = (builder(&servers).connect().await.unwrap(), builder(&servers).connect().await.unwrap());
    let stuck = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    eventually_queued(&ours, 1).await;
    let forced = theirs.force_release("r").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(stuck.token() < forced.token && forced.token < next.token());
    timeout(TTL, stuck.lost()).await.unwrap();
    assert_eq!(ours.inspect("r").await.unwrap().nodes[0].evicted.len(), 1);
}

// promise: postgresql
#[tokio::test]
async fn locks_that_share_a_batch_are_granted_without_a_deadlock() {
    let servers = [PostgresServer::start().await];
    let managers = join_all((0..4).map(|_| builder(&servers).connect())).await;
    let managers: Vec<LockManager> = managers.into_iter().map(Result::unwrap).collect();
    let names: Vec<String> = (0..16).map(|name| format!("r{name}")).collect();
    // Each takes them in another order, and they travel in batches.
    join_all(managers.iter().enumerate().map(async |(offset, locks)| {
        for round in 0..5 {
            let order = (0..names.len()).map(|n| &names[(n * 7 + offset * 3 + round) % names.len()]);
            join_all(order.map(async |name| locks.lock(name).acquire().await.unwrap().release().await.unwrap())).await;
        }
    }))
    .await;
    assert!(!servers[0].log().contains("deadlock"), "{}", servers[0].log());
}

// promise: postgresql
#[tokio::test]
async fn permits_are_held_by_no_more_than_their_number_and_leave_no_queue() {
    let servers = [PostgresServer::start().await];
    let managers = join_all((0..3).map(|_| builder(&servers).connect())).await;
    let (referees, callers) = ([Referee::default(), Referee::default()], managers.iter().flat_map(|locks| [locks; 4]));
    join_all(callers.map(async |locks| {
        for _ in 0..8 {
            let permit = locks.as_ref().unwrap().permits("r", 2).acquire().await.unwrap();
            let referee = &referees[permit.slot().unwrap() as usize];
            assert!(referee.enter(&permit));
            tokio::time::sleep(Duration::from_millis(1)).await;
            referee.leave(&permit);
            permit.release().await.unwrap();
        }
    }))
    .await;
    assert_eq!(referees.iter().map(Referee::entered).sum::<usize>(), 3 * 4 * 8);
    referees.iter().for_each(Referee::assert_no_violations);
    let left = "SELECT (SELECT count(*) FROM locks.lock WHERE expires > clock_timestamp())
                  + (SELECT count(*) FROM locks.waiter) + (SELECT count(*) FROM locks.queue)";
    eventually_async("no permit is held, and there is no queue", async || servers[0].query(left).await == "0").await;
    assert!(!servers[0].log().contains("deadlock"), "{}", servers[0].log());
}

/// Turns the clock of the client, and not that of the server, by more than a minute: expired rows are then removed.
async fn a_minute_passes() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

/// A user who may use the tables, and nothing else.
async fn as_ordinary_user(server: &PostgresServer) -> LockManager {
    server.query(PostgresNode::SCHEMA).await;
    server.query("CREATE USER app; GRANT USAGE ON SCHEMA locks TO app").await;
    server.query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA locks TO app").await;
    LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap()
}

#[tokio::test]
async fn expired_rows_are_removed_part_by_part() {
    let server = PostgresServer::start().await;
    let locks = as_ordinary_user(&server).await;
    let long_ago = "now() - interval '2 minutes' FROM generate_series(1, 10000) AS n";
    server.query(&format!("INSERT INTO locks.lock SELECT 'l' || n, gen_random_uuid(), {long_ago}")).await;
    server.query(&format!("INSERT INTO locks.queue SELECT 'q' || n, {long_ago}")).await;
    server.query("INSERT INTO locks.waiter SELECT key, 1, false, false, gen_random_uuid() FROM locks.queue").await;
    server.query("INSERT INTO locks.lock VALUES ('kept', gen_random_uuid(), now() + interval '1 hour')").await;
    a_minute_passes().await;
    let left = "SELECT (SELECT count(*) FROM locks.lock), (SELECT count(*) FROM locks.waiter)";
    eventually_async("the locks and the waiters are gone", async || server.query(left).await == "1|0").await;
    // A queue may have had waiters in a part that came later.
    a_minute_passes().await;
    let left = "SELECT count(*) FROM locks.queue";
    eventually_async("the queues are gone", async || server.query(left).await == "0").await;
    drop(locks);
}

#[tokio::test]
async fn a_part_that_cannot_be_swept_is_reported_once_and_keeps_no_other_from_it() {
    let (server, events) = (PostgresServer::start().await, Events::record());
    let _locks = as_ordinary_user(&server).await;
    server
        .query(
            "INSERT INTO locks.lock SELECT 'l' || n, gen_random_uuid(), now() - interval '2 minutes' FROM generate_series(1, 10000) AS n;
             CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a bad page'; END $$;
             CREATE TRIGGER fails BEFORE DELETE ON locks.lock FOR EACH ROW WHEN (OLD.key = 'l1') EXECUTE FUNCTION fail()",
        )
        .await;
    let left = async || server.query("SELECT count(*) FROM locks.lock").await.parse::<u32>().unwrap();
    for _ in 0..3 {
        a_minute_passes().await;
        eventually_async("all parts but the first are swept", async || left().await < 5000).await;
    }
    assert!(left().await > 0);
    let failed = events.named("lock.sweep_failed");
    assert_eq!(failed.len(), 1);
    assert!(failed[0].fields.contains("a bad page"), "{failed:?}");
}

#[tokio::test]
async fn a_transaction_that_stays_open_is_warned_of_once_also_as_an_ordinary_user() {
    let (server, events) = (PostgresServer::start().await, Events::record());
    let locks = as_ordinary_user(&server).await;
    let warned = || events.named("lock.old_snapshot").len();
    let works = async || locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    let (reader, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // No reason to warn: it is younger than the sweep before, of which there is none.
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    a_minute_passes().await;
    assert!(works().await);
    assert_eq!(warned(), 0);
    reader.batch_execute("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for _ in 0..3 {
        assert!(works().await);
        a_minute_passes().await;
        assert!(works().await);
    }
    eventually_async("it is warned of", async || warned() == 1).await;
}

async fn eventually_queued(locks: &LockManager, waiters: u32) {
    eventually_async("they wait in the queue", async || {
        locks.inspect("r").await.unwrap().nodes.iter().all(|node| node.waiters == waiters)
    })
    .await;
}

// promise: forced-release
#[tokio::test]
async fn nobody_gets_an_evicted_lock_from_its_former_holder_beside_the_successor() {
    let servers = [PostgresServer::start().await];
    try_succession([builder(&servers).connect().await.unwrap(), builder(&servers).connect().await.unwrap()]).await;
}

/// How far the log of a server is written, in bytes.
async fn log_position(server: &PostgresServer) -> u64 {
    server.query("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").await.parse().unwrap()
}

// promise: postgresql
#[tokio::test]
async fn most_grants_write_nothing_that_has_to_be_on_disk() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let cycle = async || assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    cycle().await;
    let before = log_position(&server).await;
    for _ in 0..100 {
        cycle().await;
    }
    let written = log_position(&server).await - before;
    // The two commits of a cycle take 34 bytes each, and rows that are logged six times as much. Once in a second, they are.
    assert!((100 * 68..100 * 200).contains(&written), "{written} bytes");
    let counted = "SELECT bool_and(c.token <= c.most AND c.most = f.token AND c.is_on_disk)
                   FROM locks.fence f JOIN locks.counter c USING (keyspace, fence)";
    assert_eq!(server.query(counted).await, "t");
}

// promise: fencing, postgresql
#[tokio::test]
async fn counters_that_are_lost_skip_tokens_and_give_none_twice() {
    let mut server = PostgresServer::start().await;
    let builder =
        || LockManager::builder().postgres([server.url()]).max_ttl(Duration::from_secs(1)).ttl(Duration::from_secs(1));
    let locks = builder().connect().await.unwrap();
    let mut last = 0;
    for _ in 0..70 {
        let guard = locks.lock("r").acquire().await.unwrap();
        assert!(guard.token().get() > last);
        last = guard.token().get();
        assert!(guard.release().await.unwrap());
    }
    // Nobody needs them to be there.
    server.query("TRUNCATE locks.counter").await;
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(guard.token().get() > last, "{last} {}", guard.token());
    last = guard.token().get();
    drop(guard);
    server.kill();
    server.start_again().await;
    // What says how far tokens may have been counted outlives a crash, for any client that reads it: at least as far as they were.
    let most: u64 = server.query("SELECT max(token) FROM locks.fence WHERE fence < 16384").await.parse().unwrap();
    assert!(most >= last, "{most} {last}");
}

// promise: fencing, postgresql
#[tokio::test]
async fn a_token_of_a_reserve_that_another_manager_did_not_wait_for_outlives_a_crash() {
    // The log is written by nobody but those who wait for it.
    let mut server = PostgresServer::start_with(&["-c", "wal_writer_delay=10s"]).await;
    let connect = async |synchronous| {
        let node = PostgresNode::from_url(&server.url()).unwrap().synchronous_commit(synchronous);
        LockManager::builder().nodes([node]).connect().await.unwrap()
    };
    let (hasty, careful) = (connect(false).await, connect(true).await);
    let cycle = async |locks: &LockManager| {
        let guard = locks.lock("r").try_acquire().await.unwrap();
        let token = guard.token().get();
        assert!(guard.release().await.unwrap());
        token
    };
    let first = cycle(&hasty).await;
    let token = cycle(&careful).await;
    assert!(token > first, "{token} {first}");
    server.shut_down_immediately().await;
    server.start_again().await;
    let most = server.query("SELECT coalesce(max(token), 0) FROM locks.fence WHERE fence < 16384").await;
    assert!(most.parse::<u64>().unwrap() >= token, "{most} {token}");
}
