//! Promises 1 and 2 on in-memory nodes: one valid holder at a time; unique and increasing tokens. In virtual time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, MemoryNode};
use lock_history::Referee;
use lock_support::{Dice, MemoryCluster, all_nodes_vote, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);

/// A fence far above the cluster clock, so that the fences alone decide.
const FAR: u64 = 1 << 52;

/// Acquires and releases the lock. Returns its token.
async fn next_token(locks: &LockManager) -> u64 {
    let guard = locks.lock("r").acquire().await.unwrap();
    let token = guard.token();
    assert!(guard.release().await.unwrap());
    token.get()
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn one_holder_at_a_time_across_managers_and_tasks() {
    let cluster = MemoryCluster::new(5);
    for node in &cluster.nodes {
        node.set_delay(Duration::from_micros(300));
    }
    let referee = Arc::new(Referee::default());
    let tasks = (0..3).map(|_| cluster.manager()).flat_map(|locks| {
        let referee = &referee;
        (0..16).map(move |_| {
            let (locks, referee) = (locks.clone(), Arc::clone(referee));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = locks.lock("r").wait(Duration::from_secs(3600)).acquire().await.unwrap();
                    assert!(referee.enter(&guard));
                    sleep(Duration::from_millis(3)).await;
                    referee.leave(&guard);
                    assert!(guard.release().await.unwrap());
                }
            })
        })
    });
    for task in join_all(tasks.collect::<Vec<_>>()).await {
        task.unwrap();
    }
    referee.assert_no_violations();
    assert_eq!(referee.entered(), 3 * 16 * 5);
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn different_resources_do_not_wait_for_each_other() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guards = join_all((0..100).map(|n| locks.lock(format!("r{n}")).try_acquire())).await;
    assert!(guards.iter().all(Result::is_ok));
    assert_eq!(locks.held().len(), 100);
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn exclusion_and_token_order_survive_minority_faults() {
    for seed in 1..=3 {
        let cluster = MemoryCluster::new(5);
        let managers: Vec<_> =
            (0..3).map(|_| cluster.builder().ttl(TTL).max_ttl(TTL).connect_lazy().unwrap()).collect();
        let referee = Arc::new(Referee::default());
        let ends = Instant::now() + Duration::from_secs(60);
        let holders = managers.iter().enumerate().flat_map(|(number, locks)| {
            let referee = &referee;
            (0..3).map(move |task| {
                let dice = Dice::new(seed * 100 + number as u64 * 10 + task);
                tokio::spawn(hold_repeatedly(locks.clone(), Arc::clone(referee), dice, ends))
            })
        });
        let holders: Vec<_> = holders.collect();
        inject_faults(&cluster.nodes, Dice::new(seed), ends).await;
        for holder in holders {
            holder.await.unwrap();
        }
        assert!(referee.entered() > 40, "seed {seed}: {} entries", referee.entered());
        let violations = referee.violations();
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

/// Holds the lock for random times, with and without renewal, and drops or releases the guard.
async fn hold_repeatedly(locks: LockManager, referee: Arc<Referee>, mut dice: Dice, ends: Instant) {
    while Instant::now() < ends {
        let request = locks.lock("r").renew(dice.roll(2) == 0).wait(Duration::from_secs(5));
        match request.acquire().await {
            Ok(guard) => {
                if referee.enter(&guard) {
                    let work = sleep(Duration::from_millis(dice.roll(1500)));
                    tokio::select! {
                        () = work => {}
                        () = guard.lost(), if dice.roll(2) == 0 => {}
                    }
                    referee.leave(&guard);
                }
                match dice.roll(2) {
                    0 => drop(guard),
                    _ => _ = guard.release().await,
                }
            }
            Err(LockError::Contended { .. } | LockError::Expired { .. } | LockError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(dice.roll(20))).await;
    }
}

/// Lets two of five nodes at a time go down, hang, lose replies or lose their data, and waits for their quarantine.
async fn inject_faults(nodes: &[MemoryNode], mut dice: Dice, ends: Instant) {
    for node in nodes {
        node.set_delay(Duration::from_micros(dice.roll(4_000)));
    }
    while Instant::now() < ends {
        let first = dice.index(5);
        let victims = [first, (first + 1 + dice.index(4)) % 5];
        for victim in victims.map(|victim| &nodes[victim]) {
            match dice.roll(5) {
                0 => victim.set_down(true),
                1 => victim.set_delay(Duration::from_millis(30 + dice.roll(3_000))),
                2 => victim.drop_replies(true),
                3 => victim.forget(),
                _ => victim.set_delay(Duration::from_millis(dice.roll(30))),
            }
        }
        sleep(Duration::from_millis(dice.roll(3_000))).await;
        for victim in victims.map(|victim| &nodes[victim]) {
            victim.set_down(false);
            victim.drop_replies(false);
            victim.set_delay(Duration::from_micros(dice.roll(4_000)));
        }
        sleep(TTL * 2).await;
    }
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn tokens_are_unique_and_increase_with_skewed_fences() {
    for seed in 1..=10 {
        let mut dice = Dice::new(seed);
        let cluster = MemoryCluster::new(5);
        let managers = [cluster.manager(), cluster.manager(), cluster.manager()];
        let mut last = next_token(&managers[0]).await;
        for round in 1..20 {
            let fences: Vec<u64> = (0..5).map(|_| FAR + round * 100 + dice.roll(90)).collect();
            if dice.roll(3) == 0 {
                cluster.set_fences("r", &fences).await;
            }
            for _ in 0..3 {
                // Another majority every time, with other delays.
                let away = [dice.index(5), dice.index(5)];
                away.iter().for_each(|node| cluster.nodes[*node].set_down(true));
                cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(dice.roll(20))));
                let next = next_token(&managers[dice.index(3)]).await;
                away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
                cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
                for locks in &managers {
                    all_nodes_vote(locks).await;
                }
                assert!(next > last, "seed {seed}, round {round}: {next} after {last}");
                last = next;
            }
        }
    }
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn tokens_increase_across_different_majorities() {
    // Five acquisitions, each on three of five nodes. Taking the largest fence of each majority as the token would give
    // 1, 2, 3, 4, 3.
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    next_token(&locks).await;
    cluster.set_fences("r", &[FAR; 5]).await;
    let mut tokens = Vec::new();
    for majority in [[0, 1, 2], [0, 1, 2], [0, 3, 1], [0, 3, 4], [2, 3, 4]] {
        let away = (0..5).filter(|node| !majority.contains(node)).collect::<Vec<_>>();
        away.iter().for_each(|node| cluster.nodes[*node].set_down(true));
        tokens.push(next_token(&locks).await);
        away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
        all_nodes_vote(&locks).await;
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_costs_one_round_trip_or_two_if_the_fences_differ() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    next_token(&locks).await;
    let round_trip = Duration::from_millis(10);
    cluster.nodes.iter().for_each(|node| node.set_delay(round_trip));
    let started = Instant::now();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert_eq!(started.elapsed(), round_trip);
    assert!(guard.release().await.unwrap());
    cluster.set_fences("r", &[FAR, FAR + 1, FAR + 2, FAR + 3, FAR + 4]).await;
    let started = Instant::now();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert_eq!(started.elapsed(), 2 * round_trip);
    assert!(guard.token().get() > FAR + 2);
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn tokens_increase_by_the_clock_after_all_fences_are_lost() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let mut last = 0;
    for _ in 0..5 {
        for _ in 0..10 {
            let next = next_token(&locks).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        assert!(last < 1 << 53, "a token fits a JavaScript number");
        cluster.nodes.iter().for_each(MemoryNode::forget);
        // All fences are lost at once, which is beyond the assumptions: only the clock is left.
        sleep(TTL * 3).await;
        eventually_async("a majority votes again", async || locks.health().await.quorum).await;
    }
}
