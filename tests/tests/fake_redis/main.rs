//! The fake Redis of the simulation, held to the real one: both get the same commands, through redis-rs, and must give the
//! same answers.

#![allow(clippy::unwrap_used, reason = "in a test, what can not go on has to end it")]

mod commands;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_tests::RedisServer;
use lock_tests::sim::redis::{FakeRedis, Flaw, NodeClock};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisResult, Value};
use tokio::sync::Mutex;

use self::commands::{PAUSE, Step, beginning, step, words};

/// How far two times to live may be apart, on a machine with much else to do.
const TOLERANCE: i64 = 5_000;

/// Both servers, each behind a connection of redis-rs.
struct Pair {
    real: MultiplexedConnection,
    fake: MultiplexedConnection,
}

impl Pair {
    async fn connect(real: &RedisServer, flaw: Option<Flaw>) -> RedisResult<Self> {
        let stream = tokio::net::TcpStream::connect(real.address()).await?;
        let real = over(stream).await?;
        let (near, far) = tokio::io::duplex(1 << 16);
        let (fake, since) = (FakeRedis::new("fake", NodeClock::default(), false, flaw), Instant::now());
        tokio::spawn(async move { fake.serve(far, || since.elapsed()).await });
        Ok(Self { real, fake: over(near).await? })
    }

    /// Both answers to a command.
    async fn ask(&mut self, words: &[String]) -> (RedisResult<Value>, RedisResult<Value>) {
        let mut command = Cmd::new();
        command.arg(words);
        (command.query_async(&mut self.real).await, command.query_async(&mut self.fake).await)
    }
}

async fn over<S>(stream: S) -> RedisResult<MultiplexedConnection>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// What two answers must have in common. `Err` names what differs.
fn compare(words: &[String], real: &RedisResult<Value>, fake: &RedisResult<Value>) -> Result<(), String> {
    let same = match (words[0].as_str(), real, fake) {
        // Newer servers take it, and redis-rs does not mind either way.
        ("CLIENT", ..) => true,
        // Errors are told apart by their code; the words change with the version.
        (_, Err(real), Err(fake)) => real.code() == fake.code() && real.kind() == fake.kind(),
        ("TIME", Ok(_), Ok(fake)) => redis::from_redis_value_ref::<(u64, u64)>(fake).is_ok(),
        ("INFO", Ok(real), Ok(fake)) => facts(real) == facts(fake),
        ("HELLO", Ok(real), Ok(fake)) => hello(real) == hello(fake),
        (_, Ok(real), Ok(fake)) => alike(real, fake),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{words:?}: the real server answers {real:?}, the fake {fake:?}")) }
}

/// The same, but for times to live that are a little apart.
fn alike(real: &Value, fake: &Value) -> bool {
    let near = |real: i64, fake: i64| real > 1_000 && fake > 1_000 && (real - fake).abs() < TOLERANCE;
    match (real, fake) {
        (Value::Int(real), Value::Int(fake)) => real == fake || near(*real, *fake),
        (Value::Array(real), Value::Array(fake)) if real.len() == fake.len() => {
            let number = |value: &Value| redis::from_redis_value_ref::<i64>(value).ok();
            match (real.as_slice(), fake.as_slice()) {
                ([Value::BulkString(word), real], [Value::BulkString(other), fake])
                    if word == other && matches!(word.as_slice(), b"HELD" | b"QUARANTINED") =>
                {
                    real == fake || number(real).zip(number(fake)).is_some_and(|(real, fake)| near(real, fake))
                }
                _ => real == fake,
            }
        }
        _ => real == fake,
    }
}

/// What is read of `INFO`.
fn facts(info: &Value) -> Vec<Option<String>> {
    let info: String = redis::from_redis_value_ref(info).unwrap();
    let fields: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    ["role", "maxmemory_policy", "aof_enabled"].map(|name| fields.get(name).map(ToString::to_string)).into()
}

/// What `HELLO` tells, but for the number of the connection, and the version of the server.
fn hello(answer: &Value) -> BTreeMap<String, String> {
    let pairs: Vec<(Value, Value)> = match answer {
        Value::Map(pairs) => pairs.clone(),
        Value::Array(items) => items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("{other:?}"),
    };
    let text = |value: &Value| format!("{value:?}");
    pairs
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| !name.contains("id") && !name.contains("version"))
        .collect()
}

/// Runs so many sequences of commands against both servers. How often which answer came; or what differed.
fn compare_sequences(cases: u32, flaw: Option<Flaw>) -> Result<BTreeMap<String, u64>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (_server, pair) = runtime.block_on(async {
        let server = RedisServer::start().await;
        let pair = Pair::connect(&server, flaw).await.unwrap();
        (server, pair)
    });
    let seen = Mutex::new((pair, BTreeMap::<String, u64>::new()));
    // The sequence that differs is told step by step; making it smaller costs time.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let sequences = (beginning(), prop::collection::vec(step(), 1..40));
    let outcome = TestRunner::new(config).run(&sequences, |(beginning, steps)| {
        runtime.block_on(async {
            let (pair, kinds) = &mut *seen.lock().await;
            for clean in [&["HELLO", "3"][..], &["FLUSHALL"], &["SCRIPT", "FLUSH"]] {
                let (real, fake) = pair.ask(&words(clean)).await;
                prop_assert!(real.is_ok() && fake.is_ok());
            }
            for Step { words, ends_soon } in beginning.iter().chain(&steps) {
                let (real, fake) = pair.ask(words).await;
                compare(words, &real, &fake).map_err(TestCaseError::fail)?;
                *kinds.entry(answer_kind(&real)).or_default() += 1;
                if *ends_soon {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Ok(())
        })
    });
    outcome.map_err(|error| error.to_string())?;
    Ok(seen.into_inner().1)
}

#[test]
fn the_fake_answers_as_redis_does() {
    let kinds = compare_sequences(250, None).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{kinds:?}");
    // A comparison of refusals alone would show little.
    let expected = [
        "GRANTED",
        "HELD",
        "CONFIRMED",
        "REFUSED",
        "KEPT",
        "GONE",
        "RELEASED",
        "NOT_OWNER",
        "UNADMITTED",
        "QUARANTINED",
        "ESTABLISHED",
        "CHANGED",
        "NOSCRIPT",
        "WRONGTYPE",
    ];
    for kind in expected {
        assert!(kinds.contains_key(kind), "never {kind}: {kinds:?}");
    }
}

#[test]
fn a_broken_fake_is_told_from_the_real_one() {
    for flaw in Flaw::ALL {
        assert!(compare_sequences(250, Some(flaw)).is_err(), "{flaw:?} makes no difference");
    }
}

/// The first word of an answer.
fn answer_kind(answer: &RedisResult<Value>) -> String {
    match answer {
        Ok(Value::Array(items)) => {
            items.first().and_then(|first| redis::from_redis_value_ref(first).ok()).unwrap_or_default()
        }
        Ok(_) => "plain".to_owned(),
        Err(error) => error.code().map_or_else(|| format!("{:?}", error.kind()), ToOwned::to_owned),
    }
}
