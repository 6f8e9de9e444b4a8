//! The connection on which the server wakes this process.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::ready;
use futures_util::stream::poll_fn;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::classify::node_error;
use super::codec::column;
use super::connect::{CONNECT_TIMEOUT, connect};
use super::settings::NO_TIMEOUTS;
use super::source::Source;
use crate::node::{Keyspace, NodeError, Wakeup, Wakeups};
use crate::random::WaiterId;

/// How often it is found out whether the connection still works.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Listens for the wake-ups of a waiter.
pub(super) async fn listen(source: &Source, keyspace: &Keyspace, waiter: WaiterId) -> Result<Wakeups, NodeError> {
    let connected = connect(source).await?;
    let (client, mut wire) = connected.prepare(|client, _| begin(client, keyspace, waiter)).await?;
    let messages = poll_fn(move |cx| wire.poll_message(cx)).scan((), |(), message| ready(message.ok()));
    Ok(Box::pin(messages.filter_map(|message| ready(parse(&message))).take_until(lost(client))))
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

/// Resolves when a check finds that the connection does not work any more. The kernel's probes do not notice a server that hangs.
async fn lost(client: Client) {
    let mut works = true;
    while works {
        sleep(CHECK_INTERVAL).await;
        works = matches!(timeout(CONNECT_TIMEOUT, client.batch_execute("")).await, Ok(Ok(())));
    }
}

fn parse(message: &AsyncMessage) -> Option<Wakeup> {
    let AsyncMessage::Notification(notification) = message else { return None };
    let (wakeup, _time) = notification.payload().rsplit_once(' ')?;
    Wakeup::parse(wakeup)
}
