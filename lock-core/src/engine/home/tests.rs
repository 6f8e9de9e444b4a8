use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::*;
use crate::MemoryNode;
use crate::cluster::Beside;
use crate::engine::watcher::{ASK_EVERY, Watcher};
use crate::node::{Keyspace, LockNode};
use crate::quorum::MembershipConfig;
use crate::random::Random;

/// A home over one node.
fn home() -> Arc<Home> {
    let node = MemoryNode::new();
    let config = MembershipConfig::of([node.name()]);
    let (random, stop) = (Arc::new(Random::from_seed(1)), CancellationToken::new());
    let cluster = Cluster::new(
        vec![Arc::new(node)],
        Keyspace::new(""),
        config,
        Beside::alone(),
        random,
        Arc::default(),
        stop.clone(),
    );
    let home = Arc::new(Home::new(stop));
    home.clusters.lock().push(Arc::new(cluster));
    home.add(std::future::pending);
    home
}

#[test]
fn a_watcher_on_a_runtime_that_is_being_shut_down_lets_itself_be_dropped() {
    let runtime = on_one_thread();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _inside = handle.enter();
    // What it starts there is dropped at once, so that the home is vacant again.
    assert!(Watcher::new(home(), handle.id()).watch().now_or_never().is_none());
}

fn on_one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_home_that_runs_stays_however_fast_another_runtimes_clock_goes() {
    let home = home();
    let (started, is_started) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = thread::spawn({
        let home = Arc::clone(&home);
        move || {
            on_one_thread().block_on(async {
                home.start();
                started.send(()).unwrap();
                longest_pause_until(stopped).await
            })
        }
    });
    is_started.recv().unwrap();
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    paused.block_on(async {
        home.start();
        sleep(Duration::from_secs(3600)).await;
    });
    let tenure = home.state.lock().tenure;
    stop.send(()).unwrap();
    let pause = running.join().unwrap();
    // A busy machine may have given the home no processor for that long.
    assert!(tenure == 1 || pause > ASK_EVERY * 2, "tenure {tenure}, {pause:?}");
}

/// For how long in a row this runtime has not run, until it is stopped.
async fn longest_pause_until(mut stopped: oneshot::Receiver<()>) -> Duration {
    let (mut longest, mut before) = (Duration::ZERO, std::time::Instant::now());
    while stopped.try_recv().is_err() {
        sleep(Duration::from_millis(5)).await;
        longest = longest.max(before.elapsed());
        before = std::time::Instant::now();
    }
    longest
}

#[tokio::test]
async fn work_that_panics_is_not_awaited_for_ever() {
    async fn panics() {
        panic!("a node of somebody else");
    }
    let home = home();
    let asking = tokio::spawn(async move { home.run(panics).await });
    let panic = asking.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a node of somebody else"));
}

#[test]
fn a_runtime_that_is_shut_down_is_replaced_at_once_and_forgotten() {
    let home = home();
    for tenure in 1..4 {
        on_one_thread().block_on(async { home.start() });
        assert_eq!(home.state.lock().tenure, tenure);
        assert!(home.state.lock().watching.is_empty());
    }
}

#[test]
fn a_runtime_that_stalls_is_replaced_once_and_comes_back_as_another_one() {
    let home = home();
    let (first, second) = (on_one_thread(), on_one_thread());
    first.block_on(async { home.start() });
    second.block_on(async {
        home.start();
        while home.state.lock().tenure == 1 {
            home.changed.notified().await;
        }
    });
    let before = home.state.lock().tasks.len();
    // The old home does not take it back while the new one runs.
    let running = thread::spawn(move || second.block_on(async { sleep(ASK_EVERY * 8).await }));
    first.block_on(async { sleep(ASK_EVERY * 6).await });
    {
        let state = home.state.lock();
        assert_eq!((state.tenure, state.tasks.len(), state.watching.len()), (2, before, 2));
    }
    running.join().unwrap();
}

#[test]
fn work_that_is_being_polled_when_the_home_moves_begins_again_when_that_poll_ends() {
    let (home, (sender, began), (leave, may_leave)) = (home(), mpsc::channel(), mpsc::channel::<()>());
    let may_leave = Arc::new(Mutex::new(Some(may_leave)));
    home.add(move || {
        let (sender, may_leave) = (sender.clone(), Arc::clone(&may_leave));
        async move {
            sender.send(Handle::current().id()).unwrap();
            let first_only = may_leave.lock().take();
            if let Some(may_leave) = first_only {
                _ = may_leave.recv();
            }
            std::future::pending::<()>().await;
        }
    });
    let first = thread::spawn({
        let home = Arc::clone(&home);
        move || {
            on_one_thread().block_on(async {
                home.start();
                while home.state.lock().tenure == 1 {
                    sleep(Duration::from_millis(1)).await;
                }
            });
        }
    });
    let at_first = began.recv().unwrap();
    let second = on_one_thread();
    second.block_on(async {
        home.start();
        while home.state.lock().tenure == 1 {
            home.changed.notified().await;
        }
        // What was started before this is polled before it.
        tokio::spawn(async {}).await.unwrap();
        assert!(began.try_recv().is_err(), "polled twice at once");
        leave.send(()).unwrap();
        let at_second = loop {
            match began.try_recv() {
                Ok(at) => break at,
                Err(_) => sleep(Duration::from_millis(1)).await,
            }
        };
        assert_ne!(at_second, at_first);
    });
    first.join().unwrap();
}
