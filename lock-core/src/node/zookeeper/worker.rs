use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::unconstrained;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::session::Session;
use crate::node::Reply;
use crate::node::submission::{Inbox, Submitted};

/// The most requests that are taken at once.
const MAX_TAKEN: usize = 128;

/// Carries requests out, in the order in which they were submitted, and whatever else a session has to do meanwhile: signs of life,
/// the end of locks whose time is over, and watches. All of it ends with the worker.
pub(super) struct Worker {
    session: Arc<Session>,
    gone: CancellationToken,
    /// Cancels `gone` also when a runtime that is shut down drops the worker.
    _ended: DropGuard,
    /// Requests, whose number the callers limit; the ends of locks, at most one for each; a watch for each queue in which
    /// this manager waits; and a sign of life.
    under_way: FuturesUnordered<BoxFuture<'static, ()>>,
    sign_under_way: Arc<AtomicBool>,
}

impl Worker {
    pub(super) fn new(session: Arc<Session>, gone: CancellationToken) -> Self {
        let (under_way, sign_under_way) = (FuturesUnordered::new(), Arc::default());
        Self { session, _ended: gone.clone().drop_guard(), gone, under_way, sign_under_way }
    }

    /// Works until the session is over, or until every link was dropped and everything is answered.
    pub(super) async fn run(mut self, inbox: Inbox, signs: Duration) {
        let gone = self.gone.clone();
        let mut state = self.session.client.state_watcher();
        let mut taken = VecDeque::with_capacity(MAX_TAKEN);
        let mut signs = interval(signs);
        // After a pause, one sign is enough: those that were missed would prove nothing any more.
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A session that is over never comes back: its ephemeral znodes are gone, and with them its locks.
        let mut over = pin!(async move { while !state.changed().await.is_terminated() {} });
        if self.session.client.state().is_terminated() {
            return;
        }
        loop {
            tokio::select! {
                biased;
                () = gone.cancelled() => return,
                () = &mut over => return,
                // Before the requests: however many there are, the session has to live.
                _ = signs.tick() => self.keep_up(),
                Some(()) = self.under_way.next() => self.watch(),
                ready = inbox.is_ready() => {
                    if !ready {
                        return;
                    }
                    inbox.take(&mut taken, MAX_TAKEN);
                    taken.drain(..).for_each(|message| self.carry_out(*message));
                }
            }
        }
    }

    /// Begins to carry a request out. It has its place in the order of the session when this returns.
    fn carry_out(&mut self, Submitted { request, reply_to }: Submitted) {
        reply_to.written();
        self.start(|session| async move {
            let reply = session.execute(&request).await;
            if matches!(reply, Ok(Reply::Granted { .. }))
                && !reply_to.is_awaited()
                && let Some(owner) = request.operation.owner()
            {
                // It was sent when the connection was there again: so late that nobody waits for it.
                session.mark_released(&request.keys, owner);
            }
            reply_to.send(reply);
        });
    }

    /// Gives a sign of life, and sends again what was lost: the ends of locks whose time is over, or that were released, and of places in
    /// queues that no caller waits in any more.
    fn keep_up(&mut self) {
        self.session.known().places.leave_stale();
        if self.session.check_connected().is_err() {
            return;
        }
        if !self.sign_under_way.swap(true, Ordering::Relaxed) {
            self.give_sign();
        }
        let ended = self.session.known().leases.take_ended();
        for lease in ended {
            self.start(|session| async move { session.end(lease).await });
        }
        self.start(|session| async move { session.delete_left().await });
    }

    /// Shows the servers that the session lives, over the connection that also carries the requests. Not a read, which a server that was
    /// cut off from its leader would answer.
    fn give_sign(&mut self) {
        let (under_way, sent) = (Arc::clone(&self.sign_under_way), Instant::now());
        self.start(|session| async move {
            let answered = session.client.sync("/").await;
            under_way.store(false, Ordering::Relaxed);
            if answered.is_ok() {
                session.known().heard.answered(sent);
            }
        });
    }

    /// Begins to watch the queues that were entered.
    fn watch(&mut self) {
        let unwatched = self.session.known().places.take_unwatched();
        for watched in unwatched {
            self.start(|session| async move { session.watch(&watched).await });
        }
    }

    /// Starts work, which sends its first request, and keeps it if it is not done.
    fn start<F: Future<Output = ()> + Send + 'static>(&mut self, work: impl FnOnce(Arc<Session>) -> F) {
        // Unconstrained: if tokio's budget were spent, a later one could overtake.
        let mut work: BoxFuture<'static, ()> = Box::pin(unconstrained(work(Arc::clone(&self.session))));
        if futures_util::FutureExt::now_or_never(&mut work).is_none() {
            self.under_way.push(work);
        }
    }
}
