//! A quorum that is lost for a moment is ridden out inside `wait`; one that is lost for longer is answered at once. In virtual
//! time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, MemoryNode, Vote};
use lock_support::{MemoryCluster, Recorder, eventually_async};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const HANGS: Duration = Duration::from_secs(3600);

type Fault = fn(&MemoryNode, bool);

/// What makes a node useless, and good again.
const FAULTS: [(&str, Fault); 3] = [
    ("down", MemoryNode::set_down),
    ("hung", |node, begins| node.set_delay(if begins { HANGS } else { Duration::ZERO })),
    ("loses replies", MemoryNode::drop_replies),
];

async fn connected() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    (cluster, locks)
}

fn strike(cluster: &MemoryCluster, fault: Fault, begins: bool) {
    cluster.nodes[..3].iter().for_each(|node| fault(node, begins));
}

/// Runs `acquisition`, which has to fail with `NoQuorum` and the votes of the nodes, and returns how long it took.
async fn no_quorum<T>(acquisition: impl Future<Output = Result<T, LockError>>) -> Duration {
    let started = Instant::now();
    let Err(error) = acquisition.await else { panic!("granted") };
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    let failed = votes.iter().filter(|vote| matches!(vote.vote, Vote::Failed(_))).count();
    assert!(votes.len() == 5 && failed >= 3, "{error}");
    started.elapsed()
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn a_quorum_lost_for_a_moment_is_ridden_out_inside_wait() {
    for (name, fault) in FAULTS {
        let (cluster, locks) = connected().await;
        strike(&cluster, fault, true);
        let ends = async {
            sleep(Duration::from_millis(300)).await;
            strike(&cluster, fault, false);
        };
        let started = Instant::now();
        let acquiring = join_all((0..100).map(|number| locks.lock(format!("r{number}")).acquire()));
        let (guards, ()) = tokio::join!(acquiring, ends);
        assert!(guards.iter().all(Result::is_ok), "{name}: {:?}", guards.iter().find(|guard| guard.is_err()));
        assert!(started.elapsed() < SECOND, "{name}: {:?}", started.elapsed());
    }
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn first_connections_that_take_their_time_are_no_outage() {
    let cluster = MemoryCluster::new(5);
    cluster.builder().connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(HANGS));
    let locks = cluster.builder().wait(WAIT).connect_lazy().unwrap();
    let acquiring = join_all((0..100).map(|number| locks.lock(format!("r{number}")).acquire()));
    let answering = async {
        sleep(SECOND * 3 / 2).await;
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
    };
    let (guards, ()) = tokio::join!(acquiring, answering);
    assert!(guards.iter().all(Result::is_ok), "{:?}", guards.iter().find(|guard| guard.is_err()));
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn after_a_second_every_caller_is_answered_at_once_until_a_majority_is_back() {
    for (name, fault) in FAULTS {
        let (cluster, locks) = connected().await;
        strike(&cluster, fault, true);
        let callers = (0..1000).map(|number| no_quorum(locks.lock(format!("r{}", number % 500)).acquire()));
        for took in join_all(callers).await {
            assert!(took >= SECOND && took <= SECOND + 2 * NODE_TIMEOUT, "{name}: {took:?}");
        }
        for _ in 0..20 {
            let callers = (0..100).map(|number| no_quorum(locks.lock(format!("r{number}")).acquire()));
            for took in join_all(callers).await {
                assert!(took <= NODE_TIMEOUT, "{name}: {took:?}");
            }
            sleep(Duration::from_millis(500)).await;
        }
        strike(&cluster, fault, false);
        let back = Instant::now();
        eventually_async(name, async || locks.lock("r").acquire().await.is_ok()).await;
        // A node that did not answer an inspection is inspected again after two seconds at most.
        assert!(back.elapsed() <= 3 * SECOND, "{name}: {:?}", back.elapsed());

        // The next outage has a second of its own.
        strike(&cluster, fault, true);
        assert!(no_quorum(locks.lock("r").acquire()).await >= SECOND, "{name}");
    }
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn a_caller_without_a_wait_never_tries_again() {
    for (name, fault) in FAULTS {
        let (cluster, locks) = connected().await;
        strike(&cluster, fault, true);
        assert!(no_quorum(locks.lock("r").try_acquire()).await <= NODE_TIMEOUT, "{name}");
        assert!(no_quorum(locks.lock("r").wait(Duration::ZERO).acquire()).await <= NODE_TIMEOUT, "{name}");
        // A short wait ends before the outage has lasted for a second.
        let wait = Duration::from_millis(200);
        let took = no_quorum(locks.lock("r").wait(wait).acquire()).await;
        assert!(took >= wait && took <= wait + NODE_TIMEOUT, "{name}: {took:?}");
    }
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn attempts_that_time_out_while_others_succeed_are_no_outage() {
    let (cluster, locks) = connected().await;
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(20)));
    // Its node timeout is a twentieth of the ttl, and so less than the nodes take.
    let hasty = tokio::spawn(locks.lock("hasty").ttl(Duration::from_millis(200)).acquire());
    let started = Instant::now();
    while started.elapsed() < 3 * SECOND {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
    assert!(hasty.await.unwrap().is_ok(), "it went on trying");
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_a_caller_that_rides_out_an_outage() {
    let (cluster, locks) = connected().await;
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    let riding = tokio::spawn(locks.lock("r").acquire());
    sleep(SECOND / 2).await;
    let closed = Instant::now();
    locks.close();
    assert!(matches!(riding.await.unwrap(), Err(LockError::ShuttingDown { .. })));
    assert_eq!(closed.elapsed(), Duration::ZERO);
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn while_an_outage_lasts_few_attempts_are_made_however_many_callers_try_again() {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let recorders: Vec<_> = nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).wait(WAIT).connect().await.unwrap();
    nodes[..3].iter().for_each(|node| node.set_delay(HANGS));
    no_quorum(locks.lock("r").acquire()).await;
    let (before, started) = (recorders[4].owners().len(), Instant::now());
    let try_again = |number: usize| {
        let locks = &locks;
        async move {
            let mut answers = 0;
            while started.elapsed() < 2 * SECOND {
                no_quorum(locks.lock(format!("r{number}")).acquire()).await;
                answers += 1;
            }
            answers
        }
    };
    let answers = join_all((0..100).map(try_again)).await;
    let attempts = recorders[4].owners().len() - before;
    assert!((5..=21).contains(&attempts), "{attempts} attempts");
    // Quick, but not so quick that they keep a processor busy.
    assert!(answers.iter().all(|answers| (200..=400).contains(answers)), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_wait_learns_of_the_outage_that_another_one_rides_out() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_down(true));
    let riding_out = tokio::spawn(locks.lock("r").wait(Duration::from_secs(5)).acquire());
    sleep(Duration::from_millis(300)).await;
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::NoQuorum { votes, .. } if votes.len() == 3), "{error:?}");
    let error = locks.lock("r").wait(Duration::from_millis(100)).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::NoQuorum { .. }), "{error:?}");
    assert!(!riding_out.is_finished());
    riding_out.abort();
}

// promise: distinct-errors
#[tokio::test(start_paused = true)]
async fn a_caller_behind_one_that_found_no_quorum_learns_of_it() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(HANGS));
    let wait = |millis| tokio::spawn(locks.lock("r").wait(Duration::from_millis(millis)).acquire());
    // The first gives up before its attempt is over. The second makes its own while the third waits behind it.
    let [first, second, third] = [40, 5000, 300].map(wait);
    for caller in [first, third] {
        let error = caller.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    }
    assert!(!second.is_finished());
    second.abort();
}

#[tokio::test]
async fn a_caller_that_asks_again_at_once_lets_others_run() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.manager();
    let held = locks.lock("r").acquire().await.unwrap();
    let behind = tokio::spawn(locks.lock("r").wait(WAIT).acquire());
    eventually_async("it waits", async || !locks.waiting().is_empty()).await;
    drop(held);
    let asked_again = async {
        let mut refused = 0;
        while locks.lock("r").try_acquire().await.is_err() && locks.lock_all(["q", "r"]).try_acquire().await.is_err() {
            refused += 1;
            assert!(refused < 100_000, "nobody else runs");
            if behind.is_finished() {
                break;
            }
        }
    };
    asked_again.await;
    drop(behind.await.unwrap().unwrap());
}
