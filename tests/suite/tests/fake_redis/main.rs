//! The simulated Redis server and a real one execute the same random commands, sent through redis-rs, and must give the same
//! replies.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod answers;
mod channels;
mod commands;
mod encoder;
mod raw;
mod requests;
mod reservations;
mod servers;
mod snippets;
mod sorted_sets;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_fake_redis::Flaw;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use self::answers::{call_kinds, command_kind, compare, times};
use self::commands::{Action, LOCKS, Lock, PAUSE, Pause, RECORD, Step, WAKEUPS, beginning, step, words};
use self::encoder::Encoder;
use self::reservations::Reservations;
use self::servers::{Pair, Servers};

/// One thread, as in a real server.
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
    compare_sequences_by(cases, flaw, [false; 2])
}

/// As [`compare_sequences`]: whether the simulated server insists that scripts declare their keys, and whether the engine believes so.
fn compare_sequences_by(
    cases: u32,
    flaw: Option<Flaw>,
    [insists, declares]: [bool; 2],
) -> Result<BTreeMap<String, u64>, String> {
    let runtime = runtime();
    let (servers, pair, encoder) = runtime.block_on(async {
        let servers = Servers::start(flaw).await;
        if insists {
            servers.fake.insist_on_declarations();
        }
        let pair = servers.connect().await.unwrap();
        (servers, pair, Encoder::connect(declares).await)
    });
    let seen = Mutex::new((pair, encoder, BTreeMap::<String, u64>::new()));
    let sequences = (beginning(), prop::collection::vec(step(), 1..40));
    let outcome = TestRunner::new(config(cases)).run(&sequences, |(beginning, steps)| {
        runtime.block_on(async {
            let (pair, encoder, kinds) = &mut *seen.lock().await;
            let mut steps = [beginning, steps].concat();
            // Those that are no scripts of the engine declare what they like.
            steps.retain(|step| {
                !insists || !matches!(&step.action, Action::Command(words) if words[0].starts_with("EVAL"))
            });
            let mut outcome = compare_sequence(&servers, pair, encoder, &steps, kinds).await;
            // One of them may have paused while something expired, or a waiter had its time. What is different is different each time.
            for _ in 0..3 {
                if outcome.is_err() {
                    outcome = compare_sequence(&servers, pair, encoder, &steps, kinds).await;
                }
            }
            outcome.map_err(TestCaseError::fail)
        })
    });
    outcome.map_err(|error| error.to_string())?;
    let missed = servers.fake.missed_flaw();
    assert_eq!(missed, None, "no script contains the pattern of {flaw:?}");
    let undeclared = servers.fake.undeclared();
    if !undeclared.is_empty() {
        return Err(format!("not declared: {undeclared:?}"));
    }
    Ok(seen.into_inner().2)
}

/// Longer than a sequence takes, and shorter than the life of a queue.
const LONGEST: Duration = Duration::from_secs(5);

/// Runs a sequence, until the servers may differ because their clocks do. A connection has subscribed to the wake-ups of two of
/// the waiters meanwhile: the third is gone.
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
            let began = Instant::now();
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
            // Also between the commands of one call: what it writes with a short time to live has ended on both servers, or on neither.
            if let Some(Pause::Soon) = pause {
                tokio::time::sleep(PAUSE).await;
            }
        }
        if matches!(action, Action::Call(call) if call.is_spoiled()) && some_fence_is_a_time(pair).await? {
            *kinds.entry("a time in the field of a fence".to_owned()).or_default() += 1;
            return Ok(());
        }
        if let Some(Pause::Reservations) = pause {
            reservations.outlast().await;
        }
        reservations = Reservations::read(pair).await?;
        if !reservations.is_empty() {
            *kinds.entry("a reservation".to_owned()).or_default() += 1;
        }
        if subscriber.ask(&words(&["PING"])).await?.contains(" lock:") {
            *kinds.entry("heard a wake-up".to_owned()).or_default() += 1;
        }
    }
    let of_lock = |Lock { lock, queue, fence, .. }: &'static Lock| {
        [words(&["GET", lock]), words(&["ZRANGE", queue, "0", "-1", "WITHSCORES"]), words(&["HMGET", RECORD, fence])]
    };
    for command in LOCKS.iter().flat_map(of_lock) {
        let (real, fake) = pair.ask(&command).await;
        compare(&command, &real, &fake)?;
    }
    Ok(())
}

/// Whether a fence of a lock comes from the clocks, which differ. `Err` if it does on one of the servers only.
///
/// A call that counts its acquires wrongly takes the field of a fence for that of a mark, and writes there until when somebody waits.
async fn some_fence_is_a_time(pair: &mut Pair) -> Result<bool, String> {
    let fences = LOCKS.iter().map(|lock| lock.fence.as_str());
    let (real, fake) = pair.ask(&words(&["HMGET", RECORD].into_iter().chain(fences).collect::<Vec<_>>())).await;
    let (real_times, fake_times) = (times(&real), times(&fake));
    if real_times != fake_times {
        return Err(format!("the real server has the fences {real:?}, the simulated one {fake:?}"));
    }
    Ok(!real_times.is_empty())
}

#[test]
fn the_simulated_server_replies_as_redis_does() {
    // A comparison of refusals alone would prove little.
    let expected = [
        "a number",
        "H",
        "H with a position",
        "A with a position",
        "S",
        "S with a position",
        "D",
        "N",
        "C",
        "R",
        "K",
        "B",
        "G",
        "U",
        "failed: ERR",
        "failed: the fence is not a number",
        "failed: the fence is used up",
        "a reservation",
        "L",
        // What only an eviction is answered with.
        "F",
        "states of locks",
        "snippet: a value",
        "snippet: ERR",
        "snippet: WRONGTYPE",
        "WRITTEN",
        "CHANGED",
        "NOSCRIPT",
        "WRONGTYPE",
        "heard a wake-up",
    ];
    let mut kinds = BTreeMap::new();
    // On a busy machine most sequences are cut short, so it may take more of them.
    for _ in 0..6 {
        kinds.append(&mut compare_sequences(250, None).unwrap_or_else(|difference| panic!("{difference}")));
        if expected.iter().all(|kind| kinds.contains_key(*kind)) {
            return;
        }
    }
    let missing: Vec<_> = expected.iter().filter(|kind| !kinds.contains_key(**kind)).collect();
    panic!("never {missing:?}: {kinds:?}");
}

#[test]
fn a_server_that_insists_on_declared_keys_gets_all_keys_of_every_script() {
    let kinds = compare_sequences_by(150, None, [true; 2]).unwrap_or_else(|difference| panic!("{difference}"));
    for expected in
        ["a number", "H with a position", "D", "C", "K", "F", "L", "states of locks", "WRITTEN", "heard a wake-up"]
    {
        assert!(kinds.contains_key(expected), "never {expected}: {kinds:?}");
    }
}

// mutant: exclusion
#[test]
fn a_script_that_declares_too_few_keys_is_caught() {
    assert!(compare_sequences_by(250, None, [true, false]).is_err());
}

#[test]
fn a_flawed_server_is_told_from_the_real_one() {
    // Sequences of commands do not show what shows only when reservations pass, or slots move.
    let others = [Flaw::ReservesForSeconds, Flaw::ServesWhatIsLeft];
    for flaw in Flaw::ALL.into_iter().filter(|flaw| !others.contains(flaw)) {
        // The first difference ends it. On a busy machine most sequences are cut short, so it may take many.
        assert!(compare_sequences(2_000, Some(flaw)).is_err(), "{flaw:?} makes no difference");
    }
}
