use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, sleep_until};

/// What becomes of a runtime that does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A synchronous call blocks it.
    Blocked,
    /// It is kept, and nobody drives it.
    Idle,
    /// It is shut down.
    Dropped,
}

/// A current-thread runtime that ran some work, and does not run any more.
pub enum StalledRuntime {
    /// A thread that is blocked inside of the runtime, until it is told for how long to run again.
    Blocked(Option<(mpsc::Sender<Duration>, JoinHandle<()>)>),
    /// The runtime, which nobody drives.
    Idle(Runtime),
    /// It is gone.
    Dropped,
}

impl StalledRuntime {
    /// Runs work on a new runtime, which then meets its fate. Not to be called inside a runtime.
    pub fn after<T>(fate: Fate, work: impl Future<Output = T>) -> (T, Self) {
        let runtime = on_one_thread();
        let output = runtime.block_on(work);
        let stalled = match fate {
            Fate::Dropped => Self::Dropped,
            Fate::Idle => Self::Idle(runtime),
            Fate::Blocked => {
                let (again, run_for) = mpsc::channel();
                let thread = thread::spawn(move || {
                    runtime.block_on(async {
                        // An error: the test is over.
                        if let Ok(time) = run_for.recv() {
                            sleep(time).await;
                        }
                    });
                });
                Self::Blocked(Some((again, thread)))
            }
        };
        (output, stalled)
    }

    /// Lets the runtime run again for a time, and returns when that is over.
    pub fn run_again(&mut self, time: Duration) {
        match self {
            Self::Blocked(thread) => {
                if let Some((again, thread)) = thread.take() {
                    again.send(time).unwrap();
                    thread.join().unwrap();
                }
            }
            Self::Idle(runtime) => runtime.block_on(async { sleep(time).await }),
            Self::Dropped => {}
        }
    }
}

/// Runs a test for each fate of a runtime, all at once.
pub fn whatever_becomes_of_it(test: impl Fn(Fate) + Sync) {
    thread::scope(|scope| {
        for fate in [Fate::Blocked, Fate::Idle, Fate::Dropped] {
            let test = &test;
            thread::Builder::new().name(format!("{fate:?}")).spawn_scoped(scope, move || test(fate)).unwrap();
        }
    });
}

/// A new runtime that runs on the thread that drives it.
pub fn on_one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Checks that something ends within 50 ms of its time: by the same runtime's timer, which may be late itself.
pub async fn ends_in_time(what: impl Future<Output = ()>, at: impl Future<Output = Instant>) {
    let ended = async {
        what.await;
        Instant::now()
    };
    let timer = async {
        sleep_until(at.await).await;
        Instant::now()
    };
    let (ended, timer) = futures_util::future::join(ended, timer).await;
    let late = ended.saturating_duration_since(timer);
    assert!(late <= Duration::from_millis(50), "{late:?} late");
}
