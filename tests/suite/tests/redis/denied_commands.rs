//! What works on a server whose host denies commands: a test for each row of the table on the page about operations. Some hosts deny a
//! command to the user, and others let the server say that there is no such command.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, LockManagerBuilder};
use lock_support::{Events, RedisCluster, RedisServer, Sentinel, eventually, eventually_async};
use tokio::time::timeout;

/// A user who may do all but this.
async fn deny(server: &RedisServer, denied: &str) {
    let user = format!("ACL SETUSER app reset on >s3cret ~* &* +@all -{denied}");
    assert_eq!(server.query::<String>(&user).await, "OK");
}

fn url(server: &RedisServer) -> String {
    format!("redis://app:s3cret@{}", server.address())
}

fn of(urls: impl IntoIterator<Item = String>) -> LockManagerBuilder {
    LockManager::builder().redis(urls).node_timeout(Duration::from_secs(1)).wait(Duration::from_secs(20))
}

/// A server, and a builder of managers whose user is denied this.
async fn user_without(denied: &str) -> (RedisServer, LockManagerBuilder) {
    let server = RedisServer::start().await;
    deny(&server, denied).await;
    let builder = of([url(&server)]);
    (server, builder)
}

/// The same, and a server that does not have this.
async fn without(denied: &str) -> [(RedisServer, LockManagerBuilder); 2] {
    let commands = match denied {
        "@sortedset" => &["zadd", "zrem", "zrange", "zrank", "zscore", "zcard"][..],
        command => &[command],
    };
    let renamed: Vec<&str> = commands.iter().flat_map(|command| ["--rename-command", command, ""]).collect();
    let server = RedisServer::start_with(&renamed).await;
    assert_eq!(server.query::<String>("ACL SETUSER app on >s3cret ~* &* +@all").await, "OK");
    let builder = of([url(&server)]);
    [user_without(denied).await, (server, builder)]
}

/// A builder whose user is denied this, for a server where a set has been formed.
async fn without_later(denied: &str) -> (RedisServer, LockManagerBuilder) {
    let server = RedisServer::start().await;
    of([server.url()]).connect().await.unwrap();
    deny(&server, denied).await;
    let builder = of([url(&server)]);
    (server, builder)
}

/// Locks of all kinds, between two managers, and what operators do.
async fn try_everything(server: &RedisServer, locks: &LockManager) {
    let held = locks.lock("r").acquire().await.unwrap();
    let other = of([url(server)]).connect().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").acquire());
    eventually_async("it waits", async || server.keys("lock:{r}:queue").await.len() == 1).await;
    assert!(held.release().await.unwrap());
    let next = waiting.await.unwrap().unwrap();
    assert!(other.inspect("r").await.is_ok() && locks.force_release("r").await.is_ok());
    drop(next);
    let readers = (locks.read("c").acquire().await.unwrap(), other.read("c").acquire().await.unwrap());
    drop((readers, locks.permits("p", 2).acquire().await.unwrap()));
}

/// At once, for want of this, and with the remedy.
async fn is_refused(builder: LockManagerBuilder, denied: &str) {
    let refused = timeout(Duration::from_secs(5), builder.connect()).await.unwrap().unwrap_err();
    let ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) = &refused else { panic!("{refused}") };
    assert!(matches!(refusal, Refusal::Permission { .. } | Refusal::Unusable { .. }), "{refused}");
    let refusal = refusal.to_string();
    assert!(refusal.to_lowercase().contains(denied) && refusal.contains("list of commands"), "{refusal}");
    assert!(refusal.contains("lacks a permission") || refusal.contains("rename-command"), "{refusal}");
}

#[tokio::test]
async fn config() {
    for (server, builder) in without("config").await {
        try_everything(&server, &builder.assume_durable(true).connect().await.unwrap()).await;
    }
}

#[tokio::test]
async fn client() {
    for (server, builder) in without("client").await {
        let events = Events::record();
        try_everything(&server, &builder.connect().await.unwrap()).await;
        assert!(!events.named("lock.node_does_not_tell_losses").is_empty());
    }
}

#[tokio::test]
async fn script() {
    for (server, builder) in without("script").await {
        try_everything(&server, &builder.connect().await.unwrap()).await;
    }
}

#[tokio::test]
async fn role() {
    for (server, builder) in without("role").await {
        try_everything(&server, &builder.connect().await.unwrap()).await;
        let sentinel = Sentinel::start("mymaster", &server, 0).await;
        is_refused(LockManager::builder().sentinel([sentinel.address()], "redis://app:s3cret@mymaster"), "role").await;
    }
}

#[tokio::test]
async fn wait() {
    for (server, builder) in without("wait").await {
        try_everything(&server, &builder.connect().await.unwrap()).await;
        let replicated =
            of([url(&server)]).replicated(1, Duration::from_millis(50)).connect_timeout(Duration::from_secs(1));
        let refused = replicated.connect().await.unwrap_err().to_string().to_lowercase();
        assert!(refused.contains("wait") && refused.contains("list of commands"), "{refused}");
    }
}

#[tokio::test]
async fn select() {
    for (server, builder) in without("select").await {
        try_everything(&server, &builder.connect().await.unwrap()).await;
        is_refused(of([format!("{}/1", url(&server))]), "select").await;
    }
}

#[tokio::test]
async fn publish() {
    for (server, builder) in without("publish").await {
        let events = Events::record();
        try_everything(&server, &builder.connect().await.unwrap()).await;
        assert!(!events.named("lock.node_calls_nobody").is_empty());
    }
}

#[tokio::test]
async fn subscribe() {
    for (server, builder) in without("subscribe").await {
        let events = Events::record();
        try_everything(&server, &builder.connect().await.unwrap()).await;
        eventually("it is said", || !events.named("lock.node_does_not_call").is_empty()).await;
    }
}

#[tokio::test]
async fn sorted_sets() {
    for (server, builder) in without("@sortedset").await {
        let locks = builder.connect().await.unwrap();
        let held = locks.lock("r").acquire().await.unwrap();
        let other = of([url(&server)]).connect().await.unwrap();
        let waiting = tokio::spawn(other.lock("r").acquire());
        assert!(held.release().await.unwrap());
        drop(waiting.await.unwrap().unwrap());
        drop(locks.permits("p", 2).acquire().await.unwrap());
        let read = locks.read("c").wait(Duration::ZERO).acquire().await;
        assert!(matches!(read, Err(LockError::NoQuorum { .. })), "{:?}", read.err());
    }
}

#[tokio::test]
async fn hgetall() {
    let events = Events::record();
    let cluster = RedisCluster::start(3).await;
    let max_ttl = Duration::from_millis(500);
    cluster.builder().ttl(max_ttl).max_ttl(max_ttl).connect().await.unwrap();
    for server in &cluster.servers {
        deny(server, "hgetall").await;
    }
    let locks = of(cluster.servers.iter().map(url)).ttl(max_ttl).max_ttl(max_ttl).connect().await.unwrap();
    cluster.servers[0].query::<String>("FLUSHALL").await;
    eventually("it cannot be let in", || !events.named("lock.record_not_written").is_empty()).await;
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn eval() {
    let (_server, builder) = without_later("eval").await;
    let locks = builder.connect().await.unwrap();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    let forced = locks.force_release("r").await;
    assert!(matches!(forced, Err(LockError::NoQuorum { .. })), "{forced:?}");
    for (_server, builder) in without("eval").await {
        let refused = builder.connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err();
        let refused = refused.to_string().to_lowercase();
        assert!(refused.contains("eval") && refused.contains("list of commands"), "{refused}");
    }
}

#[tokio::test]
async fn info() {
    is_refused(user_without("info").await.1, "info").await;
}

#[tokio::test]
async fn time() {
    for (_server, builder) in without("time").await {
        is_refused(builder, "time").await;
    }
}

#[tokio::test]
async fn evalsha() {
    for (_server, builder) in without("evalsha").await {
        is_refused(builder, "evalsha").await;
    }
}

#[test]
fn the_table_has_a_row_for_each_test() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md")).unwrap();
    let (_, table) = page.split_once("| denied | what works without it |").unwrap();
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let calls = [r#"without(""#, r#"without_later(""#, r#"deny(server, ""#];
    let tried = calls.iter().flat_map(|call| include_str!("denied_commands.rs").split(call).skip(1));
    let tried = tried.filter_map(|rest| rest.split('"').next()).filter(|word| !word.is_empty() && !word.contains('#'));
    assert_eq!(rows.collect::<BTreeSet<_>>(), tried.collect());
}
