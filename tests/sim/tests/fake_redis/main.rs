//! The fake Redis of the simulation, held to the real one: both get the same commands, through redis-rs, and must give the
//! same answers.

#![allow(clippy::unwrap_used, reason = "in a test, what can not go on has to end it")]

mod answers;
mod commands;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_core::node::RESERVATION_TTL;
use lock_sim::redis::{FakeRedis, Flaw, NodeClock};
use lock_support::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use self::answers::{answer_kinds, compare};
use self::commands::{CALLS, LOCKS, Lock, META, PAUSE, Pause, Step, beginning, step, words};

/// Both servers.
struct Servers {
    real: RedisServer,
    fake: FakeRedis,
    since: Instant,
}

/// Both servers, each behind a connection of redis-rs.
struct Pair {
    real: MultiplexedConnection,
    fake: MultiplexedConnection,
}

impl Servers {
    async fn start(flaw: Option<Flaw>) -> Self {
        let fake = FakeRedis::new("fake", NodeClock::default(), false, flaw);
        Self { real: RedisServer::start().await, fake, since: Instant::now() }
    }

    async fn connect(&self) -> RedisResult<Pair> {
        let real = over(tokio::net::TcpStream::connect(self.real.address()).await?).await?;
        let (near, far) = tokio::io::duplex(1 << 16);
        let (fake, since) = (self.fake.clone(), self.since);
        tokio::spawn(async move { fake.serve(far, || since.elapsed()).await });
        Ok(Pair { real, fake: over(near).await? })
    }

    /// How often the fake kept a free key for someone.
    fn offers(&self) -> u64 {
        self.fake.done().get("offered").copied().unwrap_or_default()
    }
}

impl Pair {
    /// Both answers to a command.
    async fn ask(&mut self, words: &[String]) -> (RedisResult<Value>, RedisResult<Value>) {
        let mut command = Cmd::new();
        command.arg(words);
        (command.query_async(&mut self.real).await, command.query_async(&mut self.fake).await)
    }

    /// Waits for a call as the engine does, without an end. Both answers, when both have come.
    fn listen(&self, list: &str) -> impl Future<Output = [RedisResult<Vec<Value>>; 2]> + Send + use<> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("BLPOP").arg(list).arg(0);
        pipeline.cmd("LPOP").arg(list).arg(64);
        let (mut real, mut fake) = (self.real.clone(), self.fake.clone());
        async move {
            let answers =
                tokio::join!(real.send_packed_commands(&pipeline, 0, 2), fake.send_packed_commands(&pipeline, 0, 2));
            answers.into()
        }
    }

    /// Waits until so many connections of each server are blocked.
    async fn until_blocked(&mut self, count: usize) {
        let line = format!("blocked_clients:{count}\r");
        let blocked = |info: RedisResult<Value>| {
            let info: String = redis::from_redis_value(info.unwrap()).unwrap();
            info.contains(&line)
        };
        loop {
            let (real, fake) = self.ask(&words(&["INFO", "clients"])).await;
            if blocked(real) && blocked(fake) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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

/// When turns began, at the earliest and at the latest: both servers keep a key for so long, but not at the very same time.
#[derive(Default)]
struct Turns(Vec<(Instant, Instant)>);

impl Turns {
    /// Whether a step lies so that a turn may be over on one server and not on the other.
    fn may_differ(&self, (began, ended): (Instant, Instant)) -> bool {
        // Of the last of it, nothing is told from a code.
        let (last, slack) = (Duration::from_millis(12), Duration::from_millis(3));
        self.0.iter().any(|(earliest, latest)| {
            ended + last > *earliest + RESERVATION_TTL && began < *latest + RESERVATION_TTL + slack
        })
    }

    /// Waits until all have ended on both.
    async fn outlast(&self) {
        if let Some((_, latest)) = self.0.last() {
            tokio::time::sleep_until((*latest + RESERVATION_TTL + Duration::from_millis(5)).into()).await;
        }
    }
}

/// Runs so many sequences of commands against both servers. How often which answer came; or what differed.
fn compare_sequences(cases: u32, flaw: Option<Flaw>) -> Result<BTreeMap<String, u64>, String> {
    // One thread: what the fake wakes goes on before its next command comes, as it does in the one thread of the real one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (servers, pair) = runtime.block_on(async {
        let servers = Servers::start(flaw).await;
        let pair = servers.connect().await.unwrap();
        (servers, pair)
    });
    let seen = Mutex::new((pair, BTreeMap::<String, u64>::new()));
    // The sequence that differs is told step by step; making it smaller costs time.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let sequences = (beginning(), prop::collection::vec(step(), 1..40));
    let outcome = TestRunner::new(config).run(&sequences, |(beginning, steps)| {
        runtime.block_on(async {
            let (pair, kinds) = &mut *seen.lock().await;
            let steps = [beginning, steps].concat();
            compare_sequence(&servers, pair, &steps, kinds).await.map_err(TestCaseError::fail)
        })
    });
    outcome.map_err(|error| error.to_string())?;
    Ok(seen.into_inner().1)
}

/// Longer than a sequence lasts; shorter than a call lives.
const LONGEST: Duration = Duration::from_millis(1_500);

/// Runs a sequence, up to where the servers may differ because time is not the same to both. Beside it, someone listens.
async fn compare_sequence(
    servers: &Servers,
    pair: &mut Pair,
    steps: &[Step],
    kinds: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    for clean in [&["HELLO", "3"][..], &["FLUSHALL"], &["SCRIPT", "FLUSH"]] {
        let (real, fake) = pair.ask(&words(clean)).await;
        assert!(real.is_ok() && fake.is_ok(), "{real:?} {fake:?}");
    }
    // The listener of a sequence that failed may just be going.
    pair.until_blocked(0).await;
    let listener = servers.connect().await.unwrap();
    // A set: it goes with this sequence, wherever that ends.
    let mut heard = JoinSet::new();
    heard.spawn(listener.listen(CALLS[0]));
    drop(listener);
    pair.until_blocked(1).await;
    let (start, mut turns) = (Instant::now(), Turns::default());
    for Step { words, pause } in steps {
        let (offers, began) = (servers.offers(), Instant::now());
        let (real, fake) = pair.ask(words).await;
        let ended = Instant::now();
        if turns.may_differ((began, ended)) || start.elapsed() > LONGEST {
            *kinds.entry("out of time".to_owned()).or_default() += 1;
            return Ok(());
        }
        compare(words, &real, &fake)?;
        answer_kinds(words, &real, kinds);
        if servers.offers() > offers {
            turns.0.push((began, ended));
            *kinds.entry("offered".to_owned()).or_default() += 1;
        }
        match pause {
            // As long as all turns, if there are any: in the midst of one it could end before the next command or behind it.
            Some(_) if !turns.0.is_empty() => {
                turns.outlast().await;
                tokio::time::sleep(PAUSE).await;
            }
            Some(Pause::Soon) => tokio::time::sleep(PAUSE).await,
            _ => {}
        }
    }
    // What stands there in the end, but for the turns, which may be just ending.
    let of_lock = |Lock { lock, queue, fence, .. }: &'static Lock| {
        [words(&["MGET", lock, queue]), words(&["HMGET", META, fence])]
    };
    let calls = CALLS[1..].iter().map(|list| words(&["LRANGE", list, "0", "-1"]));
    for command in LOCKS.iter().flat_map(of_lock).chain(calls) {
        let (real, fake) = pair.ask(&command).await;
        compare(&command, &real, &fake)?;
    }
    // Whoever listens yet is to go.
    for command in [&["DEL", CALLS[0]][..], &["RPUSH", CALLS[0], "end"]] {
        let (real, fake) = pair.ask(&words(command)).await;
        compare(&words(command), &real, &fake)?;
    }
    let [real, fake] = heard.join_next().await.unwrap().unwrap();
    let (real, fake) = (real.map_err(|error| error.to_string())?, fake.map_err(|error| error.to_string())?);
    let first: Option<(String, String)> = redis::from_redis_value_ref(&real[0]).unwrap();
    let what = if first.is_some_and(|(_, call)| call == "end") { "heard nothing" } else { "heard a call" };
    *kinds.entry(what.to_owned()).or_default() += 1;
    if real == fake { Ok(()) } else { Err(format!("the real server calls {real:?}, the fake {fake:?}")) }
}

#[test]
fn the_fake_answers_as_redis_does() {
    let kinds = compare_sequences(250, None).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{kinds:?}");
    // A comparison of refusals alone would show little.
    let expected = [
        "a number",
        "H",
        "Q",
        "D",
        "N",
        "C",
        "R",
        "K",
        "G",
        "U",
        "failed: ERR",
        "failed: the fence is not a number",
        "failed: the fence is used up",
        "offered",
        "ESTABLISHED",
        "CHANGED",
        "NOSCRIPT",
        "WRONGTYPE",
        "heard a call",
        "heard nothing",
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

/// What each connection had, in order, is the same on both: of two that wait for one list, the first has the first element;
/// what comes behind a command that is blocked waits; and so long it waits.
#[tokio::test]
async fn a_connection_that_is_blocked_waits_as_on_redis() {
    const LIST: &str = CALLS[0];
    let servers = Servers::start(None).await;
    let mut pair = servers.connect().await.unwrap();
    for protocol in ["2", "3"] {
        let mut waiting = Vec::new();
        for count in 1..=2 {
            let mut listener = servers.connect().await.unwrap();
            let (real, fake) = listener.ask(&words(&["HELLO", protocol])).await;
            compare(&words(&["HELLO"]), &real, &fake).unwrap();
            waiting.push(tokio::spawn(listener.listen(LIST)));
            pair.until_blocked(count).await;
        }
        let push = words(&["RPUSH", LIST, "one", "two", "three", "four"]);
        let (real, fake) = pair.ask(&push).await;
        compare(&push, &real, &fake).unwrap();
        let mut heard = Vec::new();
        for waiting in waiting {
            let [real, fake] = waiting.await.unwrap().map(Result::unwrap);
            assert_eq!(real, fake);
            heard.push(real);
        }
        let element = |value: &str| Value::BulkString(value.as_bytes().to_vec());
        assert_eq!(heard[0][0], Value::Array(vec![element(LIST), element("one")]));
        assert_eq!(heard[1][0], Value::Array(vec![element(LIST), element("two")]));
        assert_eq!(heard[0][1], Value::Array(vec![element("three"), element("four")]));
        assert_eq!(heard[1][1], Value::Nil);

        let began = Instant::now();
        let blpop = words(&["BLPOP", LIST, "0.2"]);
        let (real, fake) = pair.ask(&blpop).await;
        compare(&blpop, &real, &fake).unwrap();
        assert_eq!(real.unwrap(), Value::Nil);
        assert!(began.elapsed() >= Duration::from_millis(400), "one after the other: {:?}", began.elapsed());
    }

    // A connection that is gone waits no more, and takes no element away.
    let listener = servers.connect().await.unwrap();
    let waiting = tokio::spawn(listener.listen(LIST));
    pair.until_blocked(1).await;
    waiting.abort();
    drop((waiting.await, listener));
    pair.until_blocked(0).await;
    for command in [&["RPUSH", LIST, "five"][..], &["LPOP", LIST]] {
        let (real, fake) = pair.ask(&words(command)).await;
        compare(&words(command), &real, &fake).unwrap();
    }
}
