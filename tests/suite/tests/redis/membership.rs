//! Who the masters are: different lists of masters, masters that forgot what they promised, and wrong clocks.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockGuard, LockManager, LockManagerBuilder};
use lock_history::Referee;
use lock_support::{Proxy, RedisCluster, RedisServer, all_nodes_vote, eventually_async};
use tokio::time::{Instant, sleep};

/// Also how long the quarantine of a master is, at least.
const TTL: Duration = Duration::from_secs(2);
const HOUR: i64 = 3600;

fn with_settings(builder: LockManagerBuilder) -> LockManagerBuilder {
    builder.ttl(TTL).max_ttl(TTL).node_timeout(TTL / 8)
}

/// Tries until the lock is acquired, and enters with it.
async fn enter(locks: &LockManager, referee: &Referee) -> LockGuard {
    let began = Instant::now();
    loop {
        match locks.lock("r").renew(false).try_acquire().await {
            Ok(guard) if referee.enter(&guard) => return guard,
            Ok(_) => {}
            Err(error) => assert!(began.elapsed() < TTL * 15, "the lock is not free again: {error}"),
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// A manager whose traffic to each of its masters can be held back.
struct Client {
    locks: LockManager,
    proxies: Vec<Proxy>,
}

impl Client {
    async fn of(servers: &[&RedisServer]) -> Self {
        let proxies = join_all(servers.iter().map(|server| Proxy::open(server.address()))).await;
        let builder = with_settings(LockManager::builder()).nodes(proxies.iter().map(Proxy::node));
        Self { locks: builder.connect_lazy().unwrap(), proxies }
    }

    /// Whether it works, and whether it does with all of its masters.
    async fn has(&self) -> (bool, bool) {
        let health = self.locks.health().await;
        (health.quorum, health.nodes.iter().all(|node| node.admitted))
    }
}

/// Two clients, whose lists have the first two masters in common, acquire at once: one reaches the first master late, the other
/// one the second. One of them holds the lock.
async fn one_of_two_lists_holds_the_lock(ours: &Client, theirs: &Client) {
    let referee = Referee::default();
    eventually_async("one of the clients is granted the lock", async || {
        ours.proxies[0].hold();
        theirs.proxies[1].hold();
        let try_acquire = |client: &Client| client.locks.lock("r").renew(false).try_acquire();
        let (ours_granted, theirs_granted) = tokio::join!(try_acquire(ours), try_acquire(theirs));
        let guards: Vec<LockGuard> = [ours_granted, theirs_granted].into_iter().flatten().collect();
        guards.iter().for_each(|guard| _ = referee.enter(guard));
        referee.assert_no_violations();
        ours.proxies[0].pass();
        theirs.proxies[1].pass();
        !guards.is_empty()
    })
    .await;
    let ((_, all_of_ours), (_, all_of_theirs)) = tokio::join!(ours.has(), theirs.has());
    assert!(!(all_of_ours && all_of_theirs), "the third masters of both lists vote");
}

// promise: membership
#[tokio::test]
async fn two_lists_of_masters_never_hold_a_lock_at_once() {
    // The masters of the first list gave tokens that are ahead of all clocks now. The one that replaces the third knows none.
    let mut servers = join_all((0..3).map(|_| RedisServer::start_with_clock(HOUR))).await;
    let first = with_settings(LockManager::builder().redis(servers.iter().map(RedisServer::url)));
    let first = first.connect().await.unwrap();
    all_nodes_vote(&first).await;
    drop(first.lock("r").acquire().await.unwrap());
    first.shutdown(Duration::ZERO).await;
    servers.iter().for_each(|server| server.step_clock(0));
    servers.push(RedisServer::start().await);

    let ours = Client::of(&[&servers[0], &servers[1], &servers[2]]).await;
    all_nodes_vote(&ours.locks).await;
    let theirs = Client::of(&[&servers[0], &servers[1], &servers[3]]).await;
    all_nodes_vote(&theirs.locks).await;
    one_of_two_lists_holds_the_lock(&ours, &theirs).await;
}

// promise: membership
#[tokio::test]
async fn two_lists_of_new_masters_never_hold_a_lock_at_once() {
    let servers = RedisCluster::start(4).await.servers;
    let ours = Client::of(&[&servers[0], &servers[1], &servers[2]]).await;
    let theirs = Client::of(&[&servers[0], &servers[1], &servers[3]]).await;
    eventually_async("both clients work, one of them with all of its masters", async || {
        let (ours, theirs) = tokio::join!(ours.has(), theirs.has());
        ours.0 && theirs.0 && (ours.1 || theirs.1)
    })
    .await;
    one_of_two_lists_holds_the_lock(&ours, &theirs).await;
}

/// Five masters, of which the third keeps its data on disk.
async fn five_servers(appendfsync: &str) -> RedisCluster {
    let mut cluster = RedisCluster::start(5).await;
    cluster.servers[2] = RedisServer::start_on_disk(appendfsync).await;
    cluster
}

/// One client is granted the lock by three of five masters, and the third of these forgets it. Another client, which knew the
/// masters before, is granted the lock when the time of the first is over.
struct Forgetting {
    referee: Referee,
    second: LockManager,
    _first: (LockManager, LockGuard),
}

impl Forgetting {
    /// Up to the grant of the first client.
    async fn begin(cluster: &RedisCluster, urls: &[String], second: LockManager) -> Self {
        let stopped = &cluster.servers[3..];
        stopped.iter().for_each(RedisServer::stop);
        let first = with_settings(LockManager::builder().redis(urls)).connect().await.unwrap();
        let referee = Referee::default();
        let guard = enter(&first, &referee).await;
        Self { referee, second, _first: (first, guard) }
    }

    /// Goes on when the master has forgotten the lock.
    async fn end(self, cluster: &RedisCluster) {
        let returned = &cluster.servers[3..];
        returned.iter().for_each(RedisServer::cont);
        let _guard = enter(&self.second, &self.referee).await;
        self.referee.assert_no_violations();
    }
}

/// A client that knows these masters, all of which vote.
async fn connected(urls: &[String]) -> LockManager {
    let locks = with_settings(LockManager::builder().redis(urls)).connect().await.unwrap();
    all_nodes_vote(&locks).await;
    locks
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

// promise: quarantine
#[tokio::test]
async fn a_master_that_lost_its_last_second_and_is_durable_now_grants_no_second_lock() {
    let mut cluster = five_servers("everysec").await;
    let urls = urls(&cluster.servers);
    let second = connected(&urls).await;
    let without_the_last_second = cluster.servers[2].back_up().await;
    let forgetting = Forgetting::begin(&cluster, &urls, second).await;
    cluster.servers[2].restore(&without_the_last_second, &["--appendfsync", "always"]).await;
    forgetting.end(&cluster).await;
}

// promise: quarantine
#[tokio::test]
async fn a_durable_master_that_was_restored_from_a_backup_grants_no_second_lock() {
    let mut cluster = five_servers("always").await;
    let urls = urls(&cluster.servers);
    let second = connected(&urls).await;
    drop(second.lock("another").acquire().await.unwrap());
    let backup = cluster.servers[2].back_up().await;
    let forgetting = Forgetting::begin(&cluster, &urls, second).await;
    cluster.servers[2].restore(&backup, &[]).await;
    forgetting.end(&cluster).await;
}

// promise: quarantine
#[tokio::test]
async fn a_durable_standby_that_was_promoted_grants_no_second_lock() {
    let mut cluster = five_servers("always").await;
    let (address, replication) = (cluster.servers[2].address(), Proxy::open(cluster.servers[2].address()).await);
    let address = Proxy::open(address).await;
    let mut urls = urls(&cluster.servers);
    urls[2] = address.url();
    let second = connected(&urls).await;
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let standby = cluster.servers[2].start_standby(&replication, &durable).await;
    // With its first replica, the data of the master has another id. The client knows that it lost nothing.
    second.members().await.unwrap();
    replication.hold();
    let forgetting = Forgetting::begin(&cluster, &urls, second).await;
    cluster.servers[2].kill();
    standby.promote().await;
    address.lead_to(standby.address());
    forgetting.end(&cluster).await;
}

// promise: fencing
#[tokio::test]
async fn tokens_grow_although_clocks_are_wrong_and_a_master_forgets() {
    let clocks = [0, HOUR / 6, HOUR / 6].map(RedisServer::start_with_clock);
    let servers = join_all(clocks).await;
    let urls = urls(&servers);
    let known = connected(&urls).await;

    servers[0].stop();
    let second_token = token_of_a_new_client(&urls).await;
    servers[0].cont();
    servers[1].query::<String>("FLUSHALL").await;
    does_not_vote(&known, 1).await;
    all_nodes_vote(&known).await;
    drop(known);
    servers[2].stop();
    let third_token = token_of_a_new_client(&urls).await;
    assert!(third_token > second_token, "{third_token} after {second_token}");
}

// promise: fencing
#[tokio::test]
async fn tokens_grow_although_a_client_stood_still_and_a_master_forgets() {
    let mut servers = join_all((0..3).map(|_| RedisServer::start_with_clock(0))).await;
    let urls = urls(&servers);
    let stood_still = connected(&urls).await;
    let backup = servers[1].back_up().await;
    servers.iter().for_each(|server| server.step_clock(3 * HOUR));

    servers[2].stop();
    let first_token = token_of_a_new_client(&urls).await;
    servers[2].cont();
    // It still knows the set, so the client has no reason to ask the other masters, nor to read their clocks.
    servers[1].restore(&backup, &[]).await;
    does_not_vote(&stood_still, 1).await;
    all_nodes_vote(&stood_still).await;
    servers[0].stop();
    let second_token = enter(&stood_still, &Referee::default()).await.token();
    assert!(second_token > first_token, "{second_token} after {first_token}");
}

/// The token of a client that connects now, and goes when it has released the lock.
async fn token_of_a_new_client(urls: &[String]) -> lock_core::FencingToken {
    let locks = with_settings(LockManager::builder().redis(urls)).connect().await.unwrap();
    let token = enter(&locks, &Referee::default()).await.token();
    locks.shutdown(Duration::ZERO).await;
    token
}

// promise: membership
#[tokio::test]
async fn a_set_that_was_flushed_under_its_clients_grants_no_second_lock() {
    flushed_under_its_clients(3).await;
}

// promise: membership
#[tokio::test]
async fn an_only_master_that_was_flushed_under_its_clients_grants_no_second_lock() {
    flushed_under_its_clients(1).await;
}

async fn flushed_under_its_clients(count: usize) {
    let servers = RedisCluster::start(count).await.servers;
    let (ours, theirs) = (connected(&urls(&servers)).await, connected(&urls(&servers)).await);
    for contender in [&ours, &theirs] {
        all_nodes_vote(&ours).await;
        let referee = Referee::default();
        let holder = ours.lock("r").acquire().await.unwrap();
        assert!(referee.enter(&holder));
        // At once: after a master that is flushed while the others form the set again, a person has to form it.
        join_all(servers.iter().map(|server| server.query::<String>("FLUSHALL"))).await;
        let guard = enter(contender, &referee).await;
        referee.assert_no_violations();
        assert!(guard.release().await.is_ok());
    }
}

#[tokio::test]
async fn a_quarantine_ends_whatever_the_former_key_of_quarantines_says() {
    let servers = RedisCluster::start(3).await.servers;
    let locks = connected(&urls(&servers)).await;
    servers[0].query::<String>("FLUSHALL").await;
    does_not_vote(&locks, 0).await;
    eventually_async("it has a record again", async || !servers[0].keys("lock:{node}").await.is_empty()).await;
    for server in &servers {
        // Without a time to live.
        server.query::<String>("SET lock:{node}:quarantine 1").await;
    }
    all_nodes_vote(&locks).await;
    let guard = enter(&locks, &Referee::default()).await;
    assert!(guard.release().await.unwrap());
}

/// Waits until the manager knows that a master forgot.
async fn does_not_vote(locks: &LockManager, node: usize) {
    eventually_async("a master does not vote", async || !locks.health().await.nodes[node].admitted).await;
}

/// All addresses lead to other servers and back, several times, while the servers of both sides run and keep their data. A client that gets
/// the lock on one side waits until it has ended on the other.
async fn addresses_lead_elsewhere_and_back(masters: usize) {
    let sides = [RedisCluster::start(masters).await, RedisCluster::start(masters).await];
    let servers = |side: usize| sides[side].servers.iter().map(RedisServer::address);
    let proxies = join_all(servers(0).map(Proxy::open)).await;
    let managers = [(); 2].map(|()| {
        let builder = with_settings(LockManager::builder().redis(proxies.iter().map(Proxy::url)));
        builder.connect_lazy().unwrap()
    });
    let acquire = async |locks: &LockManager| {
        let began = Instant::now();
        loop {
            match locks.lock("r").renew(false).try_acquire().await {
                Ok(guard) => return guard,
                Err(error) => assert!(began.elapsed() < TTL * 15, "the lock is not free again: {error}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    join_all(managers.iter().map(all_nodes_vote)).await;
    for turn in 0..4 {
        let held = acquire(&managers[turn % 2]).await;
        proxies.iter().zip(servers((turn + 1) % 2)).for_each(|(proxy, server)| proxy.lead_to(server));
        let next = acquire(&managers[(turn + 1) % 2]).await;
        assert!(!held.is_valid(), "two valid holders after turn {turn}, for {:?}", held.remaining());
        assert!(next.release().await.unwrap());
    }
}

// promise: membership
#[tokio::test]
async fn an_address_that_leads_elsewhere_and_back_never_gives_two_holders() {
    addresses_lead_elsewhere_and_back(1).await;
}

// promise: membership
#[tokio::test]
async fn addresses_that_lead_elsewhere_and_back_never_give_two_holders() {
    addresses_lead_elsewhere_and_back(3).await;
}
