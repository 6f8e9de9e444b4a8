//! Two shards share nothing: what a manager sends to a server, and what the scripts do there, as the server itself tells it.

use std::collections::{BTreeMap, BTreeSet};

use lock_core::{LockManager, LockManagerBuilder};
use lock_support::{Kind, RedisCluster, RedisServer, SlotCluster, eventually_async, try_every_kind};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The shards of a manager.
const SHARDS: u32 = 2;
/// What the test asks at the end.
const LAST: &str = "that-is-all";

/// Records all commands of a server and of its scripts, up to the last one.
async fn monitor(server: &RedisServer) -> impl Future<Output = Vec<String>> + use<> {
    let mut stream = BufReader::new(TcpStream::connect(server.address()).await.unwrap());
    stream.write_all(b"MONITOR\r\n").await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert_eq!(line, "+OK\r\n");
    let recorded = tokio::spawn(async move {
        let mut commands = Vec::new();
        let mut lines = stream.lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(LAST) {
                return commands;
            }
            commands.push(line);
        }
        panic!("the server ended the connection")
    });
    async move { recorded.await.unwrap() }
}

/// The shards that a text names, each with what follows its prefix.
type Named = fn(&str) -> Vec<(u32, &str)>;

/// `lock:` for the first shard, and `lock:{}NUMBER:` for the others.
fn of_servers(text: &str) -> Vec<(u32, &str)> {
    text.split("lock:").skip(1).map(|rest| of_another(rest).unwrap_or((0, rest))).collect()
}

fn of_another(rest: &str) -> Option<(u32, &str)> {
    let (number, rest) = rest.strip_prefix("{}")?.split_once(':')?;
    Some((number.parse().ok()?, rest))
}

/// `{lock:#0}` for the first shard, and `{lock:#1.NUMBER}` for the other.
fn of_cluster(text: &str) -> Vec<(u32, &str)> {
    let names = text.split("{lock:#").skip(1).map(|rest| rest.split_once('}').unwrap());
    names.map(|(tag, rest)| (tag.split('.').next().unwrap().parse().unwrap(), rest)).collect()
}

/// Checks that no command, and nothing that a script does for one, touches two shards; and that all shards were used.
fn assert_apart(commands: &[String], named: Named) {
    let (mut of_script, mut used) = (BTreeSet::<u32>::new(), BTreeMap::<u32, usize>::new());
    for command in commands {
        let shards: BTreeSet<u32> = named(command).into_iter().map(|(shard, _)| shard).collect();
        if !command.contains(" lua] ") {
            of_script.clear();
        }
        of_script.extend(&shards);
        assert!(of_script.len() <= 1, "two shards in one command: {command}");
        shards.into_iter().for_each(|shard| *used.entry(shard).or_default() += 1);
    }
    // Before a set is formed, those that there may be beside the two are asked for the number of shards.
    let others = used.split_off(&SHARDS);
    assert!(others.values().all(|commands| *commands < 20), "{others:?}");
    assert!(used.len() == SHARDS as usize && used.values().all(|commands| *commands > 500), "{used:?}");
}

/// Checks that each key is in a shard, that no lock is in two of them, and that each shard has a record of its own.
async fn assert_divided(server: &RedisServer, named: Named) {
    let keys = server.keys("*").await;
    let mut shards_of = BTreeMap::<String, BTreeSet<u32>>::new();
    for key in &keys {
        let [(shard, name)] = named(key)[..] else { panic!("{key} is in no shard") };
        shards_of.entry(name.to_owned()).or_default().insert(shard);
    }
    let records = shards_of.remove("{node}").unwrap();
    assert_eq!(records, (0..SHARDS).collect());
    assert!(shards_of.values().all(|shards| shards.len() == 1), "{shards_of:?}");
    let mut seen = BTreeSet::new();
    for record in keys.iter().filter(|key| key.ends_with("{node}")) {
        for field in ["epoch", "member", "roster"] {
            let value: Option<String> = server.query(&format!("HGET {record} {field}")).await;
            assert!(seen.insert((field, value.unwrap_or_else(|| panic!("{record} {field}")))), "{field}");
        }
    }
}

async fn try_two_shards(server: &RedisServer, builder: impl Fn() -> LockManagerBuilder, named: Named) {
    let commands = monitor(server).await;
    let builder = || builder().shards(SHARDS);
    try_every_kind(builder, &Kind::ALL).await;
    // With locks of all kinds there, and those who wait for them.
    let [ours, theirs] = [builder().connect().await.unwrap(), builder().connect().await.unwrap()];
    let mut held = Vec::new();
    for kind in Kind::ALL {
        for number in 0..8 {
            held.push(kind.acquire(&ours, &format!("{kind:?}:{number}")).await.unwrap());
        }
    }
    let waiting: Vec<_> = (0..8).map(|number| tokio::spawn(theirs.read(format!("Write:{number}")).acquire())).collect();
    eventually_async("they wait", async || server.keys("*:queue").await.len() >= 8).await;
    assert_divided(server, named).await;
    drop(held);
    for reading in waiting {
        drop(reading.await.unwrap().unwrap());
    }
    server.query::<String>(&format!("ECHO {LAST}")).await;
    assert_apart(&commands.await, named);
}

// promise: exclusion
#[tokio::test]
async fn nothing_that_is_sent_to_a_server_or_kept_there_is_about_two_shards() {
    let cluster = RedisCluster::start(1).await;
    try_two_shards(&cluster.servers[0], || cluster.builder(), of_servers).await;
}

// promise: exclusion
#[tokio::test]
async fn nothing_that_is_sent_to_a_cluster_or_kept_there_is_about_two_shards() {
    let cluster = SlotCluster::start(1, 0).await;
    let builder = || LockManager::builder().redis_cluster([cluster.url()]);
    try_two_shards(&cluster.servers[0], builder, of_cluster).await;
}

#[test]
fn what_is_about_two_shards_is_noticed() {
    let line = |context: &str, words: &str| format!("1700000000.000001 [0 {context}] {words}");
    let mut commands: Vec<String> = (0..600)
        .flat_map(|_| [line("127.0.0.1:1", r#""get" "lock:a""#), line("127.0.0.1:1", r#""get" "lock:{}1:a""#)])
        .collect();
    assert_apart(&commands, of_servers);
    for two in [
        vec![line("127.0.0.1:1", r#""mget" "lock:a" "lock:{}1:a""#)],
        vec![line("127.0.0.1:1", r#""evalsha" "s" "1" "lock:a""#), line("lua", r#""get" "lock:{}1:{a}:queue""#)],
        vec![line("127.0.0.1:1", r#""publish" "lock:{node}:wakeups:1" "0 lock:{}1:a""#)],
    ] {
        let checked = commands.iter().cloned().chain(two).collect::<Vec<_>>();
        assert!(std::panic::catch_unwind(|| assert_apart(&checked, of_servers)).is_err());
    }
    commands.retain(|line| !line.contains("{}1"));
    assert!(std::panic::catch_unwind(|| assert_apart(&commands, of_servers)).is_err(), "one was not used");
}
