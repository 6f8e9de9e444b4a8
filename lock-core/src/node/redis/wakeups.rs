//! The connection on which the server wakes this process: a subscription, on which no other command is allowed.
//!
//! It is an ordinary connection of redis-rs, so that a factory can make it, in RESP2. There, redis-rs takes each message on the
//! channel for the reply to a request. So a few requests are always under way: commands without a word, which a server skips. A
//! message that arrives while there are none is lost.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _, unfold};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::time::{Instant, sleep_until, timeout};

use super::classify::{connect_error, node_error};
use super::connect::{CONNECT_TIMEOUT, Connected};
use crate::node::{NodeError, Wakeup, Wakeups};

/// How many messages can arrive at once, at least. When fewer are waited for, it is topped up to twice as many: a command after each
/// message would wake the server while it is to answer the one that was woken.
const RECEIVERS: usize = 32;
/// How often it is found out whether the link still works.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

struct Subscription {
    connection: MultiplexedConnection,
    subscribe: Cmd,
    driver: BoxFuture<'static, ()>,
    receiving: FuturesUnordered<BoxFuture<'static, RedisResult<Vec<Value>>>>,
    /// When the link is checked next, and whether the last check is unanswered.
    check_at: Instant,
    unanswered: bool,
}

/// Subscribes to a channel.
pub(super) async fn subscribe(connected: Connected, channel: &str) -> Result<Wakeups, NodeError> {
    let Connected { connection, driver } = connected;
    let subscribe = redis::cmd("SUBSCRIBE").arg(channel).take();
    let (check_at, receiving) = (Instant::now() + CHECK_INTERVAL, FuturesUnordered::new());
    let mut subscription = Subscription { connection, subscribe, driver, receiving, check_at, unanswered: false };
    let subscribed = timeout(CONNECT_TIMEOUT, subscription.subscribe()).await;
    subscribed.unwrap_or(Err(NodeError::TimedOut))?;
    Ok(Box::pin(unfold(subscription, Subscription::next).fuse()))
}

impl Subscription {
    async fn subscribe(&mut self) -> Result<(), NodeError> {
        // Every user may send it. The connection may be one of RESP3.
        self.receive(redis::cmd("HELLO").arg(2).take());
        self.reply().await?;
        self.receive(self.subscribe.clone());
        // Before the confirmation is awaited: the first message may come with it.
        self.receive_messages();
        self.reply().await
    }

    /// Waits for the reply to a command.
    async fn reply(&mut self) -> Result<(), NodeError> {
        let lost = || NodeError::Unreachable { reason: "connection lost".into() };
        let reply = tokio::select! {
            biased;
            Some(reply) = self.receiving.next() => reply.map_err(|error| connect_error(&error))?,
            () = &mut self.driver => return Err(lost()),
        };
        let reply = reply.into_iter().next().ok_or_else(lost)?;
        reply.extract_error().map(drop).map_err(|error| node_error(&error))
    }

    /// The next wake-up; `None` if the connection is lost.
    async fn next(mut self) -> Option<(Wakeup, Self)> {
        loop {
            self.receive_messages();
            tokio::select! {
                biased;
                Some(received) = self.receiving.next() => {
                    (self.check_at, self.unanswered) = (Instant::now() + CHECK_INTERVAL, false);
                    if let Some(wakeup) = parse(received.ok()?) {
                        return Some((wakeup, self));
                    }
                }
                () = &mut self.driver => return None,
                () = sleep_until(self.check_at) => {
                    if self.unanswered {
                        return None;
                    }
                    (self.check_at, self.unanswered) = (Instant::now() + CONNECT_TIMEOUT, true);
                    // Subscribed already: the server only confirms it again.
                    self.receive(self.subscribe.clone());
                }
            }
        }
    }

    fn receive_messages(&mut self) {
        if self.receiving.len() < RECEIVERS {
            (self.receiving.len()..2 * RECEIVERS).for_each(|_| self.receive(Cmd::new()));
        }
    }

    /// Sends a command, and waits for the next message or reply.
    fn receive(&mut self, command: Cmd) {
        let (mut connection, mut commands) = (self.connection.clone(), Pipeline::new());
        // A command without a word can only be sent in a pipeline.
        commands.add_command(command);
        self.receiving.push(Box::pin(async move { connection.send_packed_commands(&commands, 0, 1).await }));
    }
}

/// A message on the channel, as `queue.lua` writes it: for how many waiters the key is reserved before this one, and the lock key.
fn parse(mut messages: Vec<Value>) -> Option<Wakeup> {
    let (_, _, message): (String, String, String) = redis::from_redis_value(messages.pop()?).ok()?;
    let (before, lock_key) = message.split_once(' ')?;
    Some(Wakeup { lock_key: lock_key.to_owned(), before: before.parse().ok()? })
}
