//! Channels: what subscribers and publishers receive is the same, byte by byte.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::commands::{one_of, words};
use super::servers::Servers;
use super::{config, runtime};

const PUBLISH_IN_SCRIPT: &str = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";

fn channel() -> impl Strategy<Value = &'static str> {
    one_of(&["a", "a", "b", "c"])
}

fn publish() -> impl Strategy<Value = Vec<String>> {
    let message = || one_of(&["0 lock:r", "text", "", "two\r\nlines"]);
    prop_oneof![
        (channel(), message()).prop_map(|(channel, message)| words(&["PUBLISH", channel, message])),
        (channel(), message()).prop_map(|(channel, message)| words(&[
            "EVAL",
            PUBLISH_IN_SCRIPT,
            "0",
            channel,
            message
        ])),
    ]
}

/// A command of a connection that may have subscribed. What unsubscribes from everything does so from one channel at most:
/// Redis names several in any order.
fn step() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        6 => channel().prop_map(|channel| words(&["SUBSCRIBE", channel])),
        1 => Just(words(&["SUBSCRIBE", "a", "b", "a"])),
        2 => channel().prop_map(|channel| words(&["UNSUBSCRIBE", channel])),
        1 => Just(words(&["UNSUBSCRIBE", "c", "b", "a"])),
        6 => publish(),
        1 => Just(words(&["PING"])),
        1 => Just(words(&["GET", "none"])),
        1 => Just(words(&["SUBSCRIBE"])),
        1 => one_of(&["SUBSCRIBE", "UNSUBSCRIBE"]).prop_map(|name| {
            words(&["EVAL", "return redis.pcall(unpack(ARGV))", "0", name, "a"])
        }),
    ]
}

#[test]
fn subscribers_receive_what_they_do_from_redis() {
    let runtime = runtime();
    let servers = runtime.block_on(Servers::start(None));
    // The two connections, and which of them does what.
    let steps = prop::collection::vec((prop::bool::weighted(0.6), step()), 1..40);
    let messages = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config(150)).run(&(one_of(&["2", "3"]), one_of(&["2", "3"]), steps), |case| {
        let (protocol, other_protocol, steps) = case;
        runtime.block_on(async {
            let mut pairs = [servers.connect_raw().await, servers.connect_raw().await];
            pairs[0].greet(protocol).await;
            pairs[1].greet(other_protocol).await;
            // The connections of the last case may still be there.
            for channel in ["a", "b", "c"] {
                pairs[0].until_nobody_listens(channel).await;
            }
            for (first, words) in &steps {
                let received = pairs[usize::from(!first)].ask(words).await.map_err(TestCaseError::fail)?;
                messages.set(messages.get() + received.matches("\r\nmessage\r\n").count());
            }
            for pair in &mut pairs {
                pair.ask(&words(&["PING"])).await.map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
    });
    outcome.unwrap_or_else(|difference| panic!("{difference}"));
    assert!(messages.get() > 100, "hardly anybody heard anything: {messages:?}");
}

/// A subscriber that hangs up is counted no more. One that unsubscribes from everything can use all commands again.
#[tokio::test]
async fn a_subscription_ends_as_on_redis() {
    let servers = Servers::start(None).await;
    let (mut caller, mut listener) = (servers.connect_raw().await, servers.connect_raw().await);
    for command in [&["UNSUBSCRIBE"][..], &["SUBSCRIBE", "a"], &["UNSUBSCRIBE"], &["PING"], &["GET", "none"]] {
        listener.ask(&words(command)).await.unwrap();
    }
    let sent = words(&["PUBLISH", "a", "text"]);
    assert!(caller.ask(&sent).await.unwrap().starts_with(":0\r\n"));
    listener.ask(&words(&["SUBSCRIBE", "a"])).await.unwrap();
    assert!(caller.ask(&sent).await.unwrap().starts_with(":1\r\n"));
    drop(listener);
    caller.until_nobody_listens("a").await;
}

/// Who tracks keys is told that all of them were deleted, before any later reply; who deleted them, after the reply to that.
#[tokio::test]
async fn a_loss_of_all_data_is_told_as_on_redis() {
    let servers = Servers::start(None).await;
    let (mut one, mut other) = (servers.connect_raw().await, servers.connect_raw().await);
    for pair in [&mut one, &mut other] {
        pair.greet("3").await;
        assert_eq!(pair.ask(&words(&["CLIENT", "TRACKING", "ON", "OPTIN"])).await.unwrap(), "+OK\r\n$6\r\nmark-2\r\n");
    }
    one.ask(&words(&["GET", "k"])).await.unwrap();
    other.ask(&words(&["SET", "k", "1"])).await.unwrap();
    let undisturbed = one.ask(&words(&["PING"])).await.unwrap();
    assert!(undisturbed.starts_with("+PONG"), "it has opted for no key: {undisturbed}");
    for told in [other.ask(&words(&["FLUSHALL"])).await.unwrap(), one.ask(&words(&["PING"])).await.unwrap()] {
        assert!(told.contains(">2\r\n$10\r\ninvalidate\r\n_\r\n"), "{told}");
    }
}
