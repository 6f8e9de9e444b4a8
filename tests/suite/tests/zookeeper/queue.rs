use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use lock_core::node::RESERVATION_TTL;
use lock_history::Referee;
use lock_support::{Fate, StalledRuntime, ZooKeeperServer, eventually_async, median};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::set::connect;

/// Waits until this many managers wait for a lock.
async fn waiters(locks: &LockManager, count: u32) {
    eventually_async("managers wait", async || locks.inspect("r").await.unwrap().nodes[0].waiters == count).await;
}

// promise: zookeeper
#[tokio::test]
async fn those_that_wait_are_served_in_the_order_in_which_they_came() {
    let address = ZooKeeperServer::shared().await;
    let first = connect(&address).await;
    let guard = first.lock("r").acquire().await.unwrap();
    let (sender, mut served) = mpsc::channel(8);
    let mut managers = Vec::new();
    for number in 0..5 {
        let (locks, sender) = (connect(&address).await, sender.clone());
        let waiting = locks.lock("r");
        tokio::spawn(async move {
            let guard = waiting.acquire().await.unwrap();
            sender.send((number, Instant::now())).await.unwrap();
            guard.release().await.unwrap();
        });
        waiters(&first, number + 1).await;
        managers.push(locks);
    }
    // A caller that does not wait does not overtake them.
    assert!(first.lock("r").try_acquire().await.is_err());
    let released = Instant::now();
    guard.release().await.unwrap();
    assert!(first.lock("r").try_acquire().await.is_err());
    let (mut times, mut last) = (Vec::new(), released);
    for expected in 0..5 {
        let (number, at) = served.recv().await.unwrap();
        assert_eq!(number, expected);
        times.push(at - last);
        last = at;
    }
    // They are woken: who is not comes again after a second, or when its turn came without being woken.
    assert!(median(times.clone()) < RESERVATION_TTL, "{times:?}");
    eventually_async("nobody waits, so it is free", async || first.lock("r").try_acquire().await.is_ok()).await;
}

// promise: zookeeper
#[tokio::test]
async fn a_waiter_that_is_stopped_holds_up_those_behind_it_for_a_moment_only() {
    let address = ZooKeeperServer::shared().await;
    let first = connect(&address).await;
    let guard = first.lock("r").acquire().await.unwrap();
    let stalled = {
        let address = address.clone();
        std::thread::spawn(move || {
            let ((locks, _waiting), stalled) = StalledRuntime::after(Fate::Blocked, async move {
                let locks = connect(&address).await;
                let waiting = tokio::spawn(locks.lock("r").acquire());
                waiters(&locks, 1).await;
                (locks, waiting)
            });
            (locks, stalled)
        })
    };
    waiters(&first, 1).await;
    let stalled = tokio::task::spawn_blocking(move || stalled.join().unwrap()).await.unwrap();
    let second = connect(&address).await;
    let waiting = tokio::spawn(second.lock("r").acquire());
    waiters(&first, 2).await;
    let began = Instant::now();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1200), "{took:?}: it waited for a session to end");
    next.release().await.unwrap();
    drop(stalled);
}

// promise: zookeeper
#[tokio::test]
async fn a_waiter_that_was_passed_over_gets_the_lock_when_it_goes_on() {
    let address = ZooKeeperServer::shared().await;
    let first = connect(&address).await;
    let guard = first.lock("r").acquire().await.unwrap();
    let (sender, acquired) = std::sync::mpsc::channel();
    let stalled = {
        let address = address.clone();
        std::thread::spawn(move || {
            StalledRuntime::after(Fate::Blocked, async move {
                let locks = connect(&address).await;
                let waiting = locks.lock("r").acquire();
                tokio::spawn(async move { sender.send(waiting.await.unwrap().release().await.unwrap()) });
                waiters(&locks, 1).await;
                locks
            })
        })
    };
    let (locks, mut stalled) = tokio::task::spawn_blocking(move || stalled.join().unwrap()).await.unwrap();
    let mut others = Vec::new();
    for number in 2..5 {
        let other = connect(&address).await;
        others.push(tokio::spawn(async move {
            loop {
                let guard = other.lock("r").acquire().await.unwrap();
                sleep(Duration::from_millis(5)).await;
                guard.release().await.unwrap();
            }
        }));
        waiters(&first, number).await;
    }
    guard.release().await.unwrap();
    // The others go on, and the place of the one that is stopped is deleted.
    waiters(&first, 2).await;
    tokio::task::spawn_blocking(move || stalled.run_again(Duration::from_millis(1500))).await.unwrap();
    assert_eq!(acquired.try_recv(), Ok(true));
    others.iter().for_each(tokio::task::JoinHandle::abort);
    drop(locks);
}

// promise: zookeeper
#[tokio::test]
async fn many_managers_that_want_one_lock_all_get_it_and_never_two_at_once() {
    let address = ZooKeeperServer::shared().await;
    let referee = Arc::new(Referee::default());
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (locks, referee) = (connect(&address).await, Arc::clone(&referee));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = locks.lock("r").acquire().await.unwrap();
                if referee.enter(&guard) {
                    sleep(Duration::from_millis(1)).await;
                    referee.leave(&guard);
                }
                guard.release().await.unwrap();
            }
        }));
    }
    let began = Instant::now();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((referee.entered(), referee.violations()), (40, Vec::<String>::new()));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

// promise: zookeeper
#[tokio::test]
async fn a_waiter_that_was_passed_over_has_its_place_again() {
    let address = ZooKeeperServer::shared().await;
    let first = connect(&address).await;
    let guard = first.lock("r").acquire().await.unwrap();
    let (second, third) = (connect(&address).await, connect(&address).await);
    let (sender, mut served) = mpsc::channel(8);
    let wait = |locks: &LockManager, number: u32| {
        let (waiting, sender) = (locks.lock("r"), sender.clone());
        tokio::spawn(async move {
            let guard = waiting.acquire().await.unwrap();
            sender.send(number).await.unwrap();
            guard.release().await.unwrap();
        })
    };
    wait(&second, 2);
    waiters(&first, 1).await;
    pass_over_all(&address).await;
    wait(&third, 3);
    waiters(&first, 2).await;
    guard.release().await.unwrap();
    assert_eq!([served.recv().await.unwrap(), served.recv().await.unwrap()], [2, 3]);
}

/// Deletes the znodes of all that wait, as one does that passed over them.
async fn pass_over_all(address: &str) {
    let (server, root) = address.split_once('/').unwrap();
    let client = zookeeper_client::Client::connect(server).await.unwrap();
    let queues = format!("/{root}/lock:/queues");
    for queue in client.list_children(&queues).await.unwrap() {
        for waiter in client.list_children(&format!("{queues}/{queue}")).await.unwrap() {
            client.delete(&format!("{queues}/{queue}/{waiter}"), None).await.unwrap();
        }
    }
}

// promise: zookeeper
#[tokio::test]
async fn managers_that_want_one_lock_again_and_again_have_equal_shares() {
    let address = ZooKeeperServer::shared().await;
    let (mut managers, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        managers.push(connect(&address).await);
    }
    let until = Instant::now() + Duration::from_millis(1500);
    for locks in managers {
        tasks.push(tokio::spawn(async move {
            let mut grants = 0;
            while Instant::now() < until {
                locks.lock("r").acquire().await.unwrap().release().await.unwrap();
                grants += 1;
            }
            grants
        }));
    }
    let mut grants = Vec::new();
    for task in tasks {
        grants.push(task.await.unwrap());
    }
    let (least, most) = (grants.iter().min().unwrap(), grants.iter().max().unwrap());
    assert!(*most <= 3 * least + 3, "{grants:?}");
}
