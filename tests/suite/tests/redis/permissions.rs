//! What a user has to be allowed on a Redis server, and what becomes of clients that may not.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::redis;
use lock_core::{LockError, LockManager};
use lock_support::RedisServer;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The permissions in the command for the shell on the page about operations.
pub(crate) fn documented_permissions() -> Vec<String> {
    let page = std::fs::read_to_string(format!("{REPOSITORY}/docs/operations.md")).unwrap();
    let (_, command) = page.split_once("redis-cli ACL SETUSER app on ").unwrap();
    let (command, _) = command.split_once("```").unwrap();
    let rules = command.replace(['\'', '\\'], "");
    let rules = rules.split_whitespace().collect::<Vec<_>>().join(" ");
    let permissions = rules.strip_prefix(">secret ").unwrap().strip_prefix(DOCUMENTED_KEYS).unwrap();
    permissions.split_whitespace().map(ToOwned::to_owned).collect()
}

/// The keys and channels on that page.
const DOCUMENTED_KEYS: &str = "~lock:* resetchannels &lock:*";

#[test]
fn the_page_about_operations_and_the_documentation_of_the_node_list_the_same_permissions() {
    let docs: String = std::fs::read_to_string(format!("{REPOSITORY}/lock-core/src/node/redis/node.rs"))
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("/// "))
        .fold(String::new(), |docs, line| docs + line + " ");
    let list = docs.split('`').find(|code| code.starts_with("+") && code.contains("+evalsha")).unwrap();
    assert_eq!(list.split(' ').collect::<Vec<_>>(), documented_permissions());
    assert!(docs.contains(&format!("`{DOCUMENTED_KEYS}`")));
}

/// What the user was denied, except for what the documentation calls optional.
pub(crate) async fn denied(server: &RedisServer) -> Vec<String> {
    let log: Vec<HashMap<String, redis::Value>> = server.query("ACL LOG").await;
    let object =
        |mut entry: HashMap<String, redis::Value>| redis::from_redis_value(entry.remove("object").unwrap()).unwrap();
    log.into_iter()
        .map(object)
        .filter(|object: &String| !["config|get", "client|setinfo"].contains(&object.as_str()))
        .collect()
}

async fn set_permissions(server: &RedisServer, permissions: &[String]) {
    set_user(server, DOCUMENTED_KEYS, permissions).await;
}

async fn set_user(server: &RedisServer, keys: &str, permissions: &[String]) {
    let command = format!("ACL SETUSER app reset on >s3cret {keys} {}", permissions.join(" "));
    server.query::<String>(&command).await;
}

/// Everything that a manager does: the first start, an acquisition, renewals, a release that wakes a waiter, a forced release, the end
/// of what these stored, and a new start after the server forgot.
async fn exercise(server: &RedisServer, prefix: &str) -> Result<(), String> {
    let url = format!("redis://app:s3cret@{}/1", server.address());
    let ttl = Duration::from_millis(200);
    let connect = async || {
        let builder = LockManager::builder().redis([&url]).prefix(prefix).ttl(ttl).max_ttl(ttl);
        builder.node_timeout(Duration::from_millis(180)).connect().await.map_err(|error| error.to_string())
    };
    let locks = connect().await?;
    let guard = locks.lock("r").acquire().await.map_err(|error| error.to_string())?;
    tokio::time::sleep(ttl * 2).await;
    guard.check().map_err(|error| error.to_string())?;
    let other = connect().await?;
    let release_behind_a_waiter = async {
        tokio::time::sleep(ttl).await;
        guard.release().await
    };
    let (waiter, released) = tokio::join!(other.lock("r").acquire(), release_behind_a_waiter);
    if !released.map_err(|error| error.to_string())? {
        return Err("not released".into());
    }
    let held = waiter.map_err(|error| error.to_string())?;
    other.inspect("r").await.map_err(|error| error.to_string())?;
    other.force_release("r").await.map_err(|error| error.to_string())?;
    drop((held, other));
    end_the_marks(server, prefix).await;
    let guard = locks.lock("r").acquire().await.map_err(|error| error.to_string())?;
    guard.release().await.map_err(|error| error.to_string())?;
    server.query::<String>("FLUSHALL").await;
    let mut tries = 0;
    loop {
        tries += 1;
        match locks.lock("r").acquire().await {
            Err(_) if tries < 50 => tokio::time::sleep(ttl / 10).await,
            outcome => return outcome.map(drop).map_err(|error| error.to_string()),
        }
    }
}

/// As if what was stored beside the locks had ended: the next release removes its marks.
async fn end_the_marks(server: &RedisServer, prefix: &str) {
    const SCRIPT: &str = "redis.call('SELECT', 1)
        for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
            if string.match(field, '^q%d+$') then redis.call('HSET', KEYS[1], field, 1) end
        end";
    let mut connection = server.connect().await.unwrap();
    let record = format!("{prefix}{{node}}");
    redis::cmd("EVAL").arg(SCRIPT).arg(1).arg(record).exec_async(&mut connection).await.unwrap();
}

/// Two processes that read at the same time, and are renewed.
async fn exercise_readers(server: &RedisServer, prefix: &str) -> Result<(), String> {
    let url = format!("redis://app:s3cret@{}/1", server.address());
    let ttl = Duration::from_millis(200);
    let mut readers = Vec::new();
    for _ in 0..2 {
        let builder = LockManager::builder().redis([&url]).prefix(format!("{prefix}readers:")).ttl(ttl).max_ttl(ttl);
        let locks = builder.connect().await.map_err(|error| error.to_string())?;
        readers.push(locks.read("r").acquire().await.map_err(|error| error.to_string())?);
    }
    tokio::time::sleep(ttl * 2).await;
    for reader in readers {
        reader.check().map_err(|error| error.to_string())?;
        reader.release().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[tokio::test]
async fn the_documented_permissions_are_sufficient_and_all_needed() {
    let server = RedisServer::start().await;
    let permissions = documented_permissions();
    set_permissions(&server, &permissions).await;
    exercise(&server, "lock:all:").await.unwrap();
    exercise_readers(&server, "lock:all:").await.unwrap();
    let mut superfluous = Vec::new();
    for permission in &permissions {
        let others: Vec<String> = permissions.iter().filter(|other| *other != permission).cloned().collect();
        set_permissions(&server, &others).await;
        // Denials that cause no error are in the log.
        server.query::<String>("ACL LOG RESET").await;
        let prefix = format!("lock:without{}:", permission.replace(['+', '|'], "-"));
        let outcome = exercise(&server, &prefix).await;
        if outcome.is_ok()
            && denied(&server).await.is_empty()
            && exercise_readers(&server, &prefix).await.is_ok()
            && denied(&server).await.is_empty()
        {
            superfluous.push(permission);
        }
    }
    assert!(superfluous.is_empty(), "not needed: {superfluous:?}");
}

#[tokio::test]
async fn a_missing_permission_is_reported() {
    let server = RedisServer::start().await;
    let permissions: Vec<String> =
        documented_permissions().into_iter().filter(|permission| permission != "+evalsha").collect();
    set_permissions(&server, &permissions).await;
    let error = exercise(&server, "lock:").await.unwrap_err();
    assert!(error.contains("the user lacks a permission"), "{error}");
}

#[tokio::test]
async fn a_user_without_access_to_the_channels_or_the_queues_still_acquires_locks() {
    let server = RedisServer::start().await;
    set_user(&server, "~lock:*", &documented_permissions()).await;
    exercise(&server, "lock:").await.unwrap();
    let objects = denied(&server).await;
    // Those of the other shards that there might be, too: before a set is formed, they are asked how many there are.
    let is_channel = |name: &String| name.starts_with("lock:{") && name.contains("{node}:wakeups:");
    assert!(!objects.is_empty() && objects.iter().all(is_channel), "{objects:?}");
    let without_queues: Vec<String> =
        documented_permissions().into_iter().filter(|permission| !permission.starts_with("+z")).collect();
    set_permissions(&server, &without_queues).await;
    server.query::<String>("ACL LOG RESET").await;
    exercise(&server, "lock:other:").await.unwrap();
    let commands = denied(&server).await;
    assert!(!commands.is_empty() && commands.iter().all(|name| name.starts_with('z')), "{commands:?}");
}

#[tokio::test]
async fn a_waiter_that_may_not_subscribe_seldom_tries_to() {
    let server = RedisServer::start().await;
    let permissions: Vec<String> =
        documented_permissions().into_iter().filter(|permission| permission != "+subscribe").collect();
    set_permissions(&server, &permissions).await;
    let url = format!("redis://app:s3cret@{}", server.address());
    let connect = async || LockManager::builder().redis([&url]).connect().await.unwrap();
    let (holder, waiter) = (connect().await, connect().await);
    let _held = holder.lock("r").acquire().await.unwrap();
    let clients = async || server.query::<String>("CLIENT LIST").await.lines().count();
    let before = clients().await;
    let outcome = waiter.lock("r").wait(Duration::from_secs(1)).acquire().await;
    assert!(matches!(outcome, Err(LockError::Contended { .. })));
    assert_eq!(clients().await, before, "a refused subscription costs no connection");
    assert!(denied(&server).await.contains(&"subscribe".to_owned()));
    let stats: String = server.query("INFO commandstats").await;
    let refused = stats.lines().find(|line| line.starts_with("cmdstat_subscribe:")).unwrap().to_owned();
    let attempts = refused.split("rejected_calls=").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap();
    assert!((1..=5).contains(&attempts), "{refused}");
}
