use std::sync::Arc;

use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::session::Session;
use crate::node::Wakeups;

/// How many wake-ups are kept that were not heard yet.
const UNHEARD: usize = 256;

/// The wake-ups of a session: it is one manager's, so there is one waiter.
pub(super) fn listen(session: &Arc<Session>, gone: CancellationToken) -> Wakeups {
    let (sender, receiver) = mpsc::channel(UNHEARD);
    session.known().listener = Some(sender);
    Box::pin(unfold((receiver, gone), |(mut receiver, gone)| async {
        let wakeup = tokio::select! {
            biased;
            () = gone.cancelled() => None,
            wakeup = receiver.recv() => wakeup,
        };
        wakeup.map(|wakeup| (wakeup, (receiver, gone)))
    }))
}
