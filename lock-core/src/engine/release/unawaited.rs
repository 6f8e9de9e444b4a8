//! Releases that nobody waits for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Release;
use crate::mutex::Mutex;
use crate::quorum::Verdict;

/// A release that nobody waits for, because a guard was dropped, or a majority has decided already.
///
/// It waits without a task or a timer of its own: whoever delivers the last reply looks whether it is complete. A task for each was a
/// seventh of what a client does for a lock on one node. It gets one where it is undecided when its time is over, or a node has to be asked
/// again.
pub(super) struct Unawaited {
    release: Mutex<Option<Release>>,
    /// `None` if it is not among those that are watched: it is settled.
    place: Option<Place>,
}

/// When its time is over, and a number that tells it from others.
type Place = (Instant, u64);

/// Those of a manager that are undecided, in the order in which their time is over. There are as many as requests are in flight.
#[derive(Default)]
pub(crate) struct UnawaitedReleases {
    state: Mutex<State>,
    /// Notified when the time of one is over before the next look.
    earlier: Notify,
}

#[derive(Default)]
struct State {
    releases: BTreeMap<Place, Arc<Unawaited>>,
    added: u64,
    /// When it is looked whose time is over; `None` while there are none, and nobody looks.
    next_look: Option<Instant>,
}

impl Unawaited {
    /// Leaves a release to its last reply.
    pub(super) fn leave(release: Release) {
        let Some(round) = &release.round else { return };
        round.await_all();
        let (all, deadline) = (Arc::clone(&release.engine.background.unawaited), round.deadline());
        let unawaited = if release.is_settled() {
            Arc::new(Unawaited { release: Mutex::new(Some(release)), place: None })
        } else {
            all.add(deadline, release)
        };
        unawaited.look();
    }

    /// Gives it a task, unless only replies are missing that decide nothing: those are not worth one.
    fn time_is_over(&self) {
        let mut left = self.release.lock();
        let Some(release) = &mut *left else { return };
        release.count_received();
        if release.is_settled() {
            return;
        }
        let release = left.take();
        drop(left);
        if let Some(release) = release {
            release.go_on();
        }
    }

    fn look(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut left = self.release.lock();
        let Some(release) = &mut *left else { return };
        if release.poll_replies(&mut Context::from_waker(&waker)).is_pending() {
            return;
        }
        let release = left.take();
        // Dropping a release, or spawning it, may run any code.
        drop(left);
        if let Some(release) = release {
            if let Some(place) = self.place {
                release.engine.background.unawaited.remove(place);
            }
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
    fn add(&self, deadline: Instant, release: Release) -> Arc<Unawaited> {
        let mut state = self.state.lock();
        state.added += 1;
        let place = (deadline, state.added);
        let unawaited = Arc::new(Unawaited { release: Mutex::new(Some(release)), place: Some(place) });
        state.releases.insert(place, Arc::clone(&unawaited));
        if state.next_look.is_none_or(|look| deadline < look) {
            state.next_look = Some(deadline);
            drop(state);
            self.earlier.notify_one();
        }
        unawaited
    }

    fn remove(&self, place: Place) {
        self.state.lock().releases.remove(&place);
    }

    /// Gives a task to each release that is undecided when its time is over. One that runs at a time, on the home, is enough.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.next_look(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.earlier.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Looks whose time is over, and returns when to look again.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let left = state.releases.split_off(&(now, u64::MAX));
        let overdue = std::mem::replace(&mut state.releases, left);
        state.next_look = state.releases.keys().next().map(|(deadline, _)| *deadline);
        let next = state.next_look;
        drop(state);
        overdue.values().for_each(|unawaited| unawaited.time_is_over());
        next
    }

    /// Gives all of them up: nodes are not asked any more.
    pub(crate) fn end(&self) {
        let left = std::mem::take(&mut self.state.lock().releases);
        for mut release in left.values().filter_map(|unawaited| unawaited.release.lock().take()) {
            release.set_verdict(Verdict::Unknown);
        }
    }
}

impl Release {
    /// Counts the replies that have arrived. Ready when none is missing.
    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(round) = &mut self.round {
            match round.poll_replies(cx) {
                Poll::Ready(Some(reply)) => self.count(reply),
                Poll::Ready(None) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}
