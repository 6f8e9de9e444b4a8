//! The simulated Redis server and a real one execute the same random commands, sent through redis-rs, and must give the same
//! replies.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod answers;
mod channels;
mod commands;
mod raw;
mod requests;
mod reservations;
mod servers;
mod snippets;
mod sorted_sets;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_sim::redis::Flaw;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use self::answers::{call_kinds, command_kind, compare};
use self::commands::{Action, LOCKS, Lock, PAUSE, Pause, RECORD, Step, WAKEUPS, beginning, step, words};
use self::requests::Encoder;
use self::reservations::Reservations;
use self::servers::{Pair, Servers};

/// One thread, as in a real server: a connection that is unblocked goes on before the next command is executed.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A sequence that differs is reported step by step; shrinking it takes time.
fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() }
}

/// Runs random sequences of commands against both servers. Returns how many replies of each kind there were, or what
/// differed.
fn compare_sequences(cases: u32, flaw: Option<Flaw>) -> Result<BTreeMap<String, u64>, String> {
    let runtime = runtime();
    let (servers, pair, encoder) = runtime.block_on(async {
        let servers = Servers::start(flaw).await;
        let pair = servers.connect().await.unwrap();
        (servers, pair, Encoder::connect().await)
    });
    let seen = Mutex::new((pair, encoder, BTreeMap::<String, u64>::new()));
    let sequences = (beginning(), prop::collection::vec(step(), 1..40));
    let outcome = TestRunner::new(config(cases)).run(&sequences, |(beginning, steps)| {
        runtime.block_on(async {
            let (pair, encoder, kinds) = &mut *seen.lock().await;
            let steps = [beginning, steps].concat();
            compare_sequence(&servers, pair, encoder, &steps, kinds).await.map_err(TestCaseError::fail)
        })
    });
    outcome.map_err(|error| error.to_string())?;
    let missed = servers.fake.missed_flaw();
    assert_eq!(missed, None, "no script contains the pattern of {flaw:?}");
    Ok(seen.into_inner().2)
}

/// Longer than a sequence takes, and shorter than the life of a wake-up.
const LONGEST: Duration = Duration::from_millis(1_500);

/// Runs a sequence, until the servers may differ because their clocks do. A connection waits for wake-ups
/// meanwhile, and another one has subscribed to channels of the same names.
async fn compare_sequence(
    servers: &Servers,
    pair: &mut Pair,
    encoder: &mut Encoder,
    steps: &[Step],
    kinds: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    for clean in [&["HELLO", "3"][..], &["FLUSHALL"], &["SCRIPT", "FLUSH"]] {
        let (real, fake) = pair.ask(&words(clean)).await;
        assert!(real.is_ok() && fake.is_ok(), "{real:?} {fake:?}");
    }
    // The listener of a sequence that failed may still be there.
    pair.until_blocked(0).await;
    let listener = servers.connect().await.unwrap();
    // A set: it is aborted when this sequence ends, wherever that is.
    let mut heard = JoinSet::new();
    heard.spawn(listener.listen(&WAKEUPS[0]));
    drop(listener);
    pair.until_blocked(1).await;
    let mut subscriber = servers.connect_raw().await;
    for channel in &WAKEUPS[..2] {
        // That of the last sequence may still be there.
        subscriber.until_nobody_listens(channel).await;
    }
    subscriber.ask(&words(&["SUBSCRIBE", &WAKEUPS[0], &WAKEUPS[1]])).await?;
    let (start, mut reservations) = (Instant::now(), Reservations::default());
    for Step { action, pause } in steps {
        let commands = match action {
            Action::Command(words) => vec![words.clone()],
            Action::Call(call) => encoder.encode(call).await,
        };
        for words in &commands {
            let (wakeups, began) = (servers.wakeups(), Instant::now());
            let (real, fake) = pair.ask(words).await;
            let ended = Instant::now();
            if reservations.may_differ((began, ended)) || start.elapsed() > LONGEST {
                *kinds.entry("out of time".to_owned()).or_default() += 1;
                return Ok(());
            }
            compare(words, &real, &fake)?;
            let kinds_here =
                if let Action::Call(_) = action { call_kinds(&real) } else { vec![command_kind(words, &real)] };
            kinds_here.into_iter().for_each(|kind| *kinds.entry(kind).or_default() += 1);
            if servers.wakeups() > wakeups {
                reservations.0.push((began, ended));
                *kinds.entry("a reservation".to_owned()).or_default() += 1;
            }
        }
        match pause {
            // Longer than all reservations, if there are any: one might end just before or just after the next command.
            Some(_) if !reservations.0.is_empty() => {
                reservations.outlast().await;
                tokio::time::sleep(PAUSE).await;
            }
            Some(Pause::Soon) => tokio::time::sleep(PAUSE).await,
            _ => {}
        }
    }
    // The keys at the end, without the reservations, which may be just ending.
    let of_lock = |Lock { lock, queue, fence, .. }: &'static Lock| {
        [words(&["MGET", lock, queue]), words(&["HMGET", RECORD, fence])]
    };
    let wakeups = WAKEUPS[1..].iter().map(|list| words(&["LRANGE", list, "0", "-1"]));
    for command in LOCKS.iter().flat_map(of_lock).chain(wakeups) {
        let (real, fake) = pair.ask(&command).await;
        compare(&command, &real, &fake)?;
    }
    if subscriber.ask(&words(&["PING"])).await?.contains("\r\nmessage\r\n") {
        *kinds.entry("heard a message".to_owned()).or_default() += 1;
    }
    // Unblocks the listener, if it is still blocked.
    for command in [&["DEL", WAKEUPS[0].as_str()][..], &["RPUSH", &WAKEUPS[0], "end"]] {
        let (real, fake) = pair.ask(&words(command)).await;
        compare(&words(command), &real, &fake)?;
    }
    let [real, fake] = heard.join_next().await.unwrap().unwrap();
    let (real, fake) = (real.map_err(|error| error.to_string())?, fake.map_err(|error| error.to_string())?);
    let first: Option<(String, String)> = redis::from_redis_value_ref(&real[0]).unwrap();
    let what = if first.is_some_and(|(_, call)| call == "end") { "heard nothing" } else { "heard a wake-up" };
    *kinds.entry(what.to_owned()).or_default() += 1;
    if real == fake {
        Ok(())
    } else {
        Err(format!("the real server wakes with {real:?}, the simulated one with {fake:?}"))
    }
}

#[test]
fn the_simulated_server_replies_as_redis_does() {
    let kinds = compare_sequences(250, None).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{kinds:?}");
    // A comparison of refusals alone would prove little.
    let expected = [
        "a number",
        "H",
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
        "a reservation",
        "L",
        "snippet: a value",
        "snippet: ERR",
        "snippet: WRONGTYPE",
        "WRITTEN",
        "CHANGED",
        "NOSCRIPT",
        "WRONGTYPE",
        "heard a wake-up",
        "heard nothing",
        "heard a message",
    ];
    for kind in expected {
        assert!(kinds.contains_key(kind), "never {kind}: {kinds:?}");
    }
}

#[test]
fn a_flawed_server_is_told_from_the_real_one() {
    for flaw in Flaw::ALL {
        assert!(compare_sequences(250, Some(flaw)).is_err(), "{flaw:?} makes no difference");
    }
}

/// Of two connections that wait for one list, the first gets the first element. Commands behind a blocked one wait until it
/// is unblocked.
#[tokio::test]
async fn a_connection_that_is_blocked_waits_as_on_redis() {
    let list = WAKEUPS[0].as_str();
    let servers = Servers::start(None).await;
    let mut pair = servers.connect().await.unwrap();
    for protocol in ["2", "3"] {
        let mut waiting = Vec::new();
        for count in 1..=2 {
            let mut listener = servers.connect().await.unwrap();
            let (real, fake) = listener.ask(&words(&["HELLO", protocol])).await;
            compare(&words(&["HELLO"]), &real, &fake).unwrap();
            waiting.push(tokio::spawn(listener.listen(list)));
            pair.until_blocked(count).await;
        }
        let push = words(&["RPUSH", list, "one", "two", "three", "four"]);
        let (real, fake) = pair.ask(&push).await;
        compare(&push, &real, &fake).unwrap();
        let mut heard = Vec::new();
        for waiting in waiting {
            let [real, fake] = waiting.await.unwrap().map(Result::unwrap);
            assert_eq!(real, fake);
            heard.push(real);
        }
        let element = |value: &str| Value::BulkString(value.as_bytes().to_vec());
        assert_eq!(heard[0][0], Value::Array(vec![element(list), element("one")]));
        assert_eq!(heard[1][0], Value::Array(vec![element(list), element("two")]));
        assert_eq!(heard[0][1], Value::Array(vec![element("three"), element("four")]));
        assert_eq!(heard[1][1], Value::Nil);

        let began = Instant::now();
        let blpop = words(&["BLPOP", list, "0.2"]);
        let (real, fake) = pair.ask(&blpop).await;
        compare(&blpop, &real, &fake).unwrap();
        assert_eq!(real.unwrap(), Value::Nil);
        assert!(began.elapsed() >= Duration::from_millis(400), "they wait one after the other: {:?}", began.elapsed());
    }

    // A connection that is closed is no longer blocked, and takes no element.
    let listener = servers.connect().await.unwrap();
    let waiting = tokio::spawn(listener.listen(list));
    pair.until_blocked(1).await;
    waiting.abort();
    drop((waiting.await, listener));
    pair.until_blocked(0).await;
    for command in [&["RPUSH", list, "five"][..], &["LPOP", list]] {
        let (real, fake) = pair.ask(&words(command)).await;
        compare(&words(command), &real, &fake).unwrap();
    }
}
