//! Removes expired rows now and then. Nobody waits for that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;

use super::classify::node_error;
use super::codec::column;
use super::session::Session;
use super::settings::STALLED_AFTER;
use crate::node::NodeError;
use crate::node::link::Session as _;

/// How often expired rows are removed, and how long it is until the next part of large tables.
const INTERVAL: Duration = Duration::from_secs(60);
const NEXT_PART: Duration = Duration::from_millis(100);

/// Runs `lock_sweep` on one part of the tables after another, until the connection is `gone`.
pub(super) async fn sweep(session: Arc<Session>, gone: CancellationToken, node: String) {
    let (mut page, mut has_warned) = (0_i64, false);
    while let Some(swept) = gone.run_until_cancelled(sweep_part(&session, page)).await {
        if swept.as_ref().is_err_and(|error| session.is_ended_by(error)) {
            gone.cancel();
        }
        let row = swept.ok().and_then(|mut rows| rows.pop());
        page = row.as_ref().and_then(|row| column(row, 0).ok()).unwrap_or(0);
        // Once is enough for a connection.
        if row.is_some_and(|row| column(&row, 1) == Ok(true)) && !has_warned {
            has_warned = true;
            log_event!(warn: "lock.old_snapshot", node,
                "a transaction of the database has been open for a minute; locks become slower until it ends, because rows of \
                 released ones cannot be removed. Find it in pg_stat_activity (backend_xmin); idle_in_transaction_session_timeout \
                 ends such transactions");
        }
    }
}

/// A server that hangs while nobody locks anything is noticed here. The worker gives up the connection sooner, if it has requests: two
/// statements may be before this one.
async fn sweep_part(session: &Session, page: i64) -> Result<Vec<Row>, NodeError> {
    sleep(if page > 0 { NEXT_PART } else { INTERVAL }).await;
    let swept = timeout(STALLED_AFTER * 3, session.query(&session.sweep, &[&page])).await;
    swept.map_or(Err(NodeError::TimedOut), |swept| swept.map_err(|error| node_error(&error)))
}
