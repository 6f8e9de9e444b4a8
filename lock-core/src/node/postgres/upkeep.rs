//! What is done beside the requests of a connection: expired rows are removed, for which nobody waits, and when it was given up, what the
//! server still does for it is cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::{NoTls, Row};
use tokio_util::sync::CancellationToken;

use super::codec::column;
use super::connect::CONNECT_TIMEOUT;
use super::session::Session;
use super::settings::STALLED_AFTER;
use super::source::Source;
use crate::node::NodeError;
use crate::node::link::Session as _;

/// How often expired rows are removed, and how long it is until the next part of large tables.
const INTERVAL: Duration = Duration::from_secs(60);
const NEXT_PART: Duration = Duration::from_millis(100);
/// The pages of a part, as `lock_sweep` has them.
const PART: i64 = 32;
/// The most requests to cancel for one connection. The worker has a few statements under way, and looks at locks are rare.
const MAX_REQUESTS: usize = 8;
/// Between two of them. One ends what the server is doing; what it has read of the next statement, it then begins.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `lock_sweep` on one part of the tables after another, until the connection is `gone`.
pub(super) async fn sweep(session: Arc<Session>, gone: CancellationToken, node: String) {
    let (mut page, mut is_behind_a_failure) = (0_i64, false);
    // Once is enough for a connection.
    let (mut has_warned, mut has_failed) = (false, false);
    while let Some(swept) = gone.run_until_cancelled(sweep_part(&session, page)).await {
        if swept.as_ref().is_err_and(|error| session.is_ended_by(error)) {
            gone.cancel();
        } else if let Err(error) = &swept
            && !has_failed
        {
            has_failed = true;
            log_event!(warn: "lock.sweep_failed", node, error = %error,
                "expired rows of the locks' tables could not be removed; until they can, the tables grow");
        }
        // What keeps one part from being swept, such as a page that is damaged, must not keep all that follow.
        let next = if swept.is_err() && !is_behind_a_failure { page + PART } else { 0 };
        is_behind_a_failure = swept.is_err();
        let row = swept.ok().and_then(|mut rows| rows.pop());
        page = row.as_ref().and_then(|row| column(row, 0).ok()).unwrap_or(next);
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
    timeout(STALLED_AFTER * 3, session.rows(&session.sweep, &[&page])).await.unwrap_or(Err(NodeError::TimedOut))
}

/// Waits until a connection is given up, and then has the server cancel what it has not answered.
///
/// A server does not notice that a client is gone while a commit waits for a synchronous standby, and no timeout ends that wait. It
/// would go on for ever, and keep its locks. When it is cancelled, the commit ends with a warning that nobody hears: it was no vote.
pub(super) async fn cancel_unanswered(source: Source, session: Arc<Session>, gone: CancellationToken) {
    gone.cancelled().await;
    let token = session.client.cancel_token();
    for _ in 0..session.unanswered().min(MAX_REQUESTS) {
        let cancelling = async {
            if let Ok((_, stream)) = source.dial().await {
                // Nobody can do anything about an error: the server is gone, or it will hear the next request.
                _ = token.cancel_query_raw(stream, NoTls).await;
            }
        };
        _ = timeout(CONNECT_TIMEOUT, cancelling).await;
        sleep(PAUSE).await;
    }
}
