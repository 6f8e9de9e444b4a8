//! A release of which only replies are missing that decide nothing.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;

use super::Release;
use crate::mutex::Mutex;

/// It waits without a task: whoever delivers the last reply looks whether the release is complete. Most releases of a lock on several
/// nodes are such ones, because a majority decides, and a task for each was a fifteenth of what a client does for a lock.
///
/// A node replies to each request, or drops it, which is a reply, too. Only what is to be asked again needs a task, and timers.
pub(super) struct Late {
    release: Mutex<Option<Release>>,
    /// Where the caller was: what goes on for it stays there.
    runtime: Option<Handle>,
}

impl Late {
    /// Leaves a release, whose verdict is known, to its last reply.
    pub(super) fn leave(release: Release) {
        if let Some(round) = &release.round {
            round.await_all();
        }
        let runtime = release.engine.runtime();
        Arc::new(Self { release: Mutex::new(Some(release)), runtime }).look();
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
        if let (Some(release), Some(runtime)) = (release.filter(|release| !release.is_complete()), &self.runtime) {
            let tracker = release.engine.background.tracker.clone();
            tracker.spawn_on(release.finish(), runtime);
        }
    }
}

impl Wake for Late {
    fn wake(self: Arc<Self>) {
        self.look();
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
