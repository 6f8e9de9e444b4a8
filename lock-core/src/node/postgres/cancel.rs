//! Cancels what the server still does for a connection that was given up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;

use super::connect::CONNECT_TIMEOUT;
use super::session::Session;
use super::source::Source;

/// The most requests for one connection. The worker has a few statements under way, and looks at locks are rare.
const MAX_REQUESTS: usize = 8;
/// Between two requests. One ends what the server is doing; what it has read of the next statement, it then begins.
const PAUSE: Duration = Duration::from_millis(200);

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
