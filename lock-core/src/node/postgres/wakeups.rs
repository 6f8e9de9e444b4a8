//! The connection on which the server wakes this process.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::address::Address;
use super::classify::node_error;
use super::codec::column;
use super::connect::{CONNECT_TIMEOUT, Wire, connect, next_message};
use super::settings::NO_TIMEOUTS;
use crate::node::{Keyspace, NodeError, Wakeup, Wakeups};
use crate::random::WaiterId;

/// How often it is found out whether the link still works.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

struct Listener {
    client: Arc<Client>,
    wire: Wire,
    /// When the link is checked next, and the check that is under way.
    check_at: Instant,
    check: Option<BoxFuture<'static, bool>>,
}

/// Listens for the wake-ups of a waiter.
pub(super) async fn listen(address: &Address, keyspace: &Keyspace, waiter: WaiterId) -> Result<Wakeups, NodeError> {
    let connected = connect(address).await?;
    let (client, wire) = connected.prepare(|client, _| begin(client, keyspace, waiter)).await?;
    let (client, check_at) = (Arc::new(client), Instant::now() + CHECK_INTERVAL);
    Ok(Box::pin(unfold(Listener { client, wire, check_at, check: None }, Listener::next).fuse()))
}

/// First it listens, which begins with a commit, and then it says so, with an advisory lock: as `lock_wake` finds it. In one transaction,
/// a notification in between would be lost, and taken for heard.
async fn begin(client: Client, keyspace: &Keyspace, waiter: WaiterId) -> Result<Client, NodeError> {
    let error = |error: tokio_postgres::Error| node_error(&error);
    let number = "SELECT hashtextextended($1 || ' ' || $2::text::uuid, 0)";
    let row = client.query_one(number, &[&keyspace.record(), &waiter.to_string()]).await.map_err(error)?;
    let number: i64 = column(&row, 0)?;
    let listen =
        format!("{NO_TIMEOUTS}; BEGIN; LISTEN \"locks_{number}\"; COMMIT; SELECT pg_advisory_lock_shared({number})");
    client.batch_execute(&listen).await.map_err(error)?;
    Ok(client)
}

impl Listener {
    /// The next wake-up; `None` if the connection is lost.
    async fn next(mut self) -> Option<(Wakeup, Self)> {
        loop {
            tokio::select! {
                biased;
                message = next_message(&mut self.wire) => {
                    if let Some(wakeup) = parse(&message?) {
                        return Some((wakeup, self));
                    }
                }
                answered = async {
                    match &mut self.check {
                        Some(check) => check.await,
                        None => std::future::pending().await,
                    }
                } => {
                    if !answered {
                        return None;
                    }
                    (self.check, self.check_at) = (None, Instant::now() + CHECK_INTERVAL);
                }
                () = sleep_until(self.check_at), if self.check.is_none() => {
                    let client = Arc::clone(&self.client);
                    self.check = Some(Box::pin(async move {
                        matches!(timeout(CONNECT_TIMEOUT, client.batch_execute("")).await, Ok(Ok(())))
                    }));
                }
            }
        }
    }
}

/// For how many waiters the lock is reserved before this one, and the lock key.
fn parse(message: &AsyncMessage) -> Option<Wakeup> {
    let AsyncMessage::Notification(notification) = message else { return None };
    let (before, lock_key) = notification.payload().split_once(' ')?;
    Some(Wakeup { lock_key: lock_key.to_owned(), before: before.parse().ok()? })
}
