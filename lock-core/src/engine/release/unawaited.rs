//! Releases that nobody waits for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Interrupted, SentRelease};
use crate::mutex::Mutex;
use crate::quorum::Verdict;

/// A release that nobody waits for, because a guard was dropped, or a majority has decided already.
///
/// It waits without a task or a timer of its own: whoever delivers the last reply, or an error, looks whether it is complete. A task for each
/// was a seventh of what a client does for a lock on one node. It gets one where it is undecided when its time is over, or a node has to be
/// asked again.
pub(super) struct Unawaited(Mutex<Option<Waiting>>);

struct Waiting {
    release: SentRelease,
    place: Place,
}

/// When to look at a release, and a number that tells it from others.
type Place = (Instant, u64);

/// The releases of a manager that nobody waits for, in the order in which to look at them: as many as there are such requests in flight, and
/// those whose runtime was shut down.
#[derive(Default)]
pub(crate) struct UnawaitedReleases {
    state: Mutex<State>,
    /// Notified when one is to be looked at before the next look.
    earlier: Notify,
}

#[derive(Default)]
struct State {
    releases: BTreeMap<Place, Left>,
    added: u64,
    /// When to look next; `None` while there are none, and nobody looks.
    next_look: Option<Instant>,
}

enum Left {
    Waiting(Arc<Unawaited>),
    Interrupted(Interrupted),
}

impl Unawaited {
    /// Leaves a release to its last reply.
    pub(super) fn leave(release: SentRelease) {
        release.round.await_all_or_error();
        let (engine, until) = (Arc::clone(&release.engine), release.waits_until(release.round.deadline));
        let (background, unawaited) = (&engine.background, Arc::new(Self(Mutex::new(None))));
        let mut waiting = unawaited.0.lock();
        let place = background.unawaited.add(until, Left::Waiting(Arc::clone(&unawaited)));
        *waiting = Some(Waiting { release, place });
        drop(waiting);
        unawaited.look();
        background.unawaited.end_if_finished(&background.finished);
    }

    /// Gives it a task, unless only replies are missing that decide nothing: those are awaited until the key has expired.
    fn time_is_over(self: Arc<Self>, now: Instant) {
        let mut left = self.0.lock();
        let Some(Waiting { release, place }) = &mut *left else { return };
        release.count_received();
        let until = release.waits_until(now);
        if until > now {
            let engine = Arc::clone(&release.engine);
            *place = engine.background.unawaited.add(until, Left::Waiting(Arc::clone(&self)));
            drop(left);
            engine.background.unawaited.end_if_finished(&engine.background.finished);
            return;
        }
        let waiting = left.take();
        // Dropping a release, or spawning it, may run any code.
        drop(left);
        if let Some(Waiting { mut release, .. }) = waiting {
            if now < release.expires {
                release.go_on();
            } else {
                release.set_verdict(Verdict::Unknown);
            }
        }
    }

    fn look(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut left = self.0.lock();
        let Some(Waiting { release, .. }) = &mut *left else { return };
        if release.poll_replies(&mut Context::from_waker(&waker)).is_pending() && release.failed.is_empty() {
            return;
        }
        let waiting = left.take();
        // Dropping a release, or spawning it, may run any code.
        drop(left);
        if let Some(Waiting { release, place }) = waiting {
            release.engine.background.unawaited.remove(place);
            if !release.is_complete() {
                release.go_on();
            }
        }
    }
}

impl Wake for Unawaited {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl UnawaitedReleases {
    fn add(&self, at: Instant, left: Left) -> Place {
        let mut state = self.state.lock();
        state.added += 1;
        let place = (at, state.added);
        state.releases.insert(place, left);
        if state.next_look.is_none_or(|look| at < look) {
            state.next_look = Some(at);
            drop(state);
            self.earlier.notify_one();
        }
        place
    }

    pub(super) fn add_interrupted(&self, at: Instant, release: Interrupted, finished: &CancellationToken) {
        self.add(at, Left::Interrupted(release));
        self.end_if_finished(finished);
    }

    /// A shutdown may have ended all others just before one was added.
    fn end_if_finished(&self, finished: &CancellationToken) {
        if finished.is_cancelled() {
            self.end();
        }
    }

    fn remove(&self, place: Place) {
        let removed = self.state.lock().releases.remove(&place);
        drop(removed);
    }

    /// Looks at each release when its time is over.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            let next = self.next_look(Instant::now());
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Looks at those whose time is over, and returns when to look again.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let left = state.releases.split_off(&(now, u64::MAX));
        let overdue = std::mem::replace(&mut state.releases, left);
        state.next_look = state.releases.keys().next().map(|(at, _)| *at);
        let next = state.next_look;
        drop(state);
        for left in overdue.into_values() {
            match left {
                Left::Waiting(unawaited) => unawaited.time_is_over(now),
                Left::Interrupted(release) => release.send_again(),
            }
        }
        next
    }

    /// Gives all of them up: nodes are not asked any more.
    pub(crate) fn end(&self) {
        let releases = std::mem::take(&mut self.state.lock().releases);
        for left in releases.into_values() {
            let Left::Waiting(unawaited) = left else { continue };
            let waiting = unawaited.0.lock().take();
            if let Some(Waiting { mut release, .. }) = waiting {
                release.set_verdict(Verdict::Unknown);
            }
        }
    }
}

impl SentRelease {
    /// Until when it is left alone, at most: to a deadline if it is undecided, or until its key has expired if it is settled.
    fn waits_until(&self, deadline: Instant) -> Instant {
        if self.verdict.is_some() && self.failed.is_empty() { self.expires } else { deadline }
    }

    /// Counts the replies that have arrived. Ready when none is missing.
    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(reply) = ready!(self.round.poll_replies(cx)) {
            self.count(reply);
        }
        Poll::Ready(())
    }
}
