use std::collections::HashSet;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::mutex::Mutex;
use crate::task::{Task, wait_until};

/// How long the end of the background work is awaited. Only a runtime that is blocked, or that nobody drives, takes any time.
const END_GRACE: Duration = Duration::from_millis(100);

/// How often the work has moved, and where it is.
pub(crate) type Tenure = (u64, Option<Id>);

/// The runtime on which the background work of a manager runs: connections, membership, renewals, wake-ups.
///
/// It is the first runtime on which the manager is used. If that is shut down, or does not run for about half a second because
/// something blocks it or nobody drives it, another one on which the manager is used takes the work over: it ends the old tasks,
/// gives the connections up as if they were lost, and starts again.
///
/// Each runtime has one small task that watches the home ([`watcher`](super::watcher)). It asks, and the home answers: so nothing is done, and no timer runs,
/// while only one runtime uses the manager.
#[derive(Default)]
pub(crate) struct Home {
    /// Tells homes apart.
    pub(super) id: u64,
    /// Whose connections are its.
    clusters: Mutex<Vec<Arc<Cluster>>>,
    pub(super) stop: CancellationToken,
    /// What to start on a new home.
    works: Mutex<Vec<Work>>,
    state: Mutex<State>,
    /// Whether there is no home: there has been none, or it was shut down.
    is_vacant: AtomicBool,
    /// Held during a move, so that there is one at a time.
    moving: Mutex<()>,
    /// Notified when the work has moved, or its home was shut down.
    pub(super) changed: Notify,
    /// Notified when another runtime asks whether the home runs.
    pub(super) asked: Notify,
    pub(super) answers: AtomicU64,
}

struct Work {
    start: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// Its task on the home. Before that, those on earlier ones that were being polled when it moved.
    tasks: Vec<Task>,
}

impl Work {
    /// Ends it where it runs.
    fn end(&mut self) {
        self.tasks.retain(Task::end);
    }

    /// Starts it on a runtime, as soon as it is not being polled on an earlier one: it never runs twice at once.
    fn start_on(&mut self, runtime: &Handle) {
        let (earlier, work) = (self.tasks.clone(), (self.start)());
        self.tasks.push(Task::spawn_on(runtime, async move {
            all_gone(&earlier).await;
            work.await;
        }));
    }
}

async fn all_gone(tasks: &[Task]) {
    join_all(tasks.iter().map(Task::gone)).await;
}

#[derive(Default)]
struct State {
    /// Counts the moves.
    tenure: u64,
    runtime: Option<Handle>,
    /// The other background tasks. Those that are finished are forgotten when one is added.
    tasks: Vec<Task>,
    /// The runtimes that watch.
    watching: HashSet<Id>,
}

impl Home {
    pub(super) fn new(stop: CancellationToken) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, stop, is_vacant: AtomicBool::new(true), ..Self::default() }
    }

    /// Keeps the nodes of a cluster up to date from now on.
    pub(super) fn keep(&self, cluster: &Arc<Cluster>) {
        self.clusters.lock().push(Arc::clone(cluster));
        let cluster = Arc::clone(cluster);
        self.add(move || Arc::clone(&cluster).maintain());
    }

    fn each_cluster(&self, with: impl Fn(&Cluster)) {
        let clusters = self.clusters.lock().clone();
        clusters.iter().for_each(|cluster| with(cluster));
    }

    /// Adds background work, which is started on every new home, until that is stopped: so it ends when the engine is dropped.
    pub(crate) fn add<F>(&self, work: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        let start = move || {
            let (stop, work) = (stop.clone(), work());
            async move { _ = stop.run_until_cancelled(work).await }.boxed()
        };
        self.works.lock().push(Work { start: Box::new(start), tasks: Vec::new() });
    }

    /// The runtime that is the home, if there ever was one.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.state.lock().runtime.clone()
    }

    /// Starts a task on the home, which ends when the home moves.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.state.lock();
        let Some(runtime) = state.runtime.clone().filter(|_| !self.stop.is_cancelled()) else { return };
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(Task::spawn_on(&runtime, work));
    }

    /// Moves the work to another runtime, unless it was moved meanwhile. Returns whether it did.
    pub(super) fn move_to(self: &Arc<Self>, runtime: &Handle, from: u64) -> bool {
        let _moving = self.moving.lock();
        let (tenure, before) = {
            let mut state = self.state.lock();
            if state.tenure != from || self.stop.is_cancelled() {
                return false;
            }
            state.tenure += 1;
            state.runtime = Some(runtime.clone());
            (state.tenure, take(&mut state.tasks))
        };
        self.is_vacant.store(false, Ordering::Release);
        // In this order: nothing is sent over an old connection when there is a new one, even if the old home runs again.
        let mut works = self.works.lock();
        works.iter_mut().for_each(Work::end);
        before.iter().for_each(|task| _ = task.end());
        self.each_cluster(Cluster::begin);
        let answering = Task::spawn_on(runtime, Occupied { home: Arc::clone(self), tenure }.answer());
        works.iter_mut().for_each(|work| work.start_on(runtime));
        drop(works);
        self.state.lock().tasks.push(answering);
        self.changed.notify_waiters();
        true
    }

    /// Ends the background work for good, and closes the connections.
    pub(crate) async fn end(&self) {
        let tasks = {
            let _moving = self.moving.lock();
            self.stop.cancel();
            let mut tasks = take(&mut self.state.lock().tasks);
            self.works.lock().iter_mut().for_each(|work| tasks.append(&mut work.tasks));
            tasks
        };
        tasks.iter().for_each(|task| _ = task.end());
        self.each_cluster(Cluster::end);
        self.changed.notify_waiters();
        _ = timeout(END_GRACE, all_gone(&tasks)).await;
        // A task that was being polled when it was ended may have opened a connection with that poll.
        self.each_cluster(Cluster::end);
    }

    /// How often the work has moved, and where it is.
    pub(crate) fn tenure(&self) -> Tenure {
        let state = self.state.lock();
        (state.tenure, state.runtime.as_ref().map(Handle::id))
    }

    /// Waits until the work has moved, and returns true; or false at once if it was on this runtime, which runs.
    pub(crate) async fn moved_since(&self, before: Tenure) -> bool {
        let is_elsewhere = Handle::try_current().is_ok_and(|here| before.1 != Some(here.id()));
        if is_elsewhere {
            wait_until(&self.changed, || self.tenure().0 != before.0).await;
        }
        is_elsewhere
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.is_vacant.load(Ordering::Acquire)
    }

    /// A runtime is to watch from now on. Returns whether it did not before, and how often the work has moved.
    pub(super) fn watch_from(&self, runtime: Id) -> (bool, u64) {
        let mut state = self.state.lock();
        (state.watching.insert(runtime), state.tenure)
    }

    /// A runtime does not watch any more.
    pub(super) fn forget(&self, runtime: Id) {
        self.state.lock().watching.remove(&runtime);
    }
}

/// Exists while the home of this tenure runs, or may run again. A runtime that is shut down drops it.
struct Occupied {
    home: Arc<Home>,
    tenure: u64,
}

impl Occupied {
    /// Answers the runtimes that ask whether this one runs.
    async fn answer(self) {
        let home = &self.home;
        loop {
            tokio::select! {
                biased;
                () = home.stop.cancelled() => return,
                () = home.asked.notified() => {}
            }
            home.answers.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let state = self.home.state.lock();
        if state.tenure == self.tenure {
            self.home.is_vacant.store(true, Ordering::Release);
            drop(state);
            self.home.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
