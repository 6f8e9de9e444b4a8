//! Promises 1 and 2 on in-memory masters in virtual time: one valid holder, unique and increasing tokens.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, MemoryNode};
use lock_history::Referee;
use lock_support::{Dice, MemoryCluster};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);

/// Numbers far above the cluster clock, so that the counters alone decide.
const FAR: u64 = 1 << 52;

async fn token(locks: &LockManager) -> u64 {
    let guard = locks.lock("r").acquire().await.unwrap();
    let token = guard.token();
    assert!(guard.release().await.unwrap());
    token.get()
}

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
    referee.assert_fair();
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

#[tokio::test(start_paused = true)]
async fn whatever_befalls_a_minority_one_holder_is_valid_and_tokens_increase() {
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
                tokio::spawn(hold_again_and_again(locks.clone(), Arc::clone(referee), dice, ends))
            })
        });
        let holders: Vec<_> = holders.collect();
        trouble(&cluster.nodes, Dice::new(seed), ends).await;
        for holder in holders {
            holder.await.unwrap();
        }
        assert!(referee.entered() > 40, "seed {seed}: {} entries", referee.entered());
        let violations = referee.violations();
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

/// Holds the lock for a while, often longer than it lives without renewal, and lets go of it in every way.
async fn hold_again_and_again(locks: LockManager, referee: Arc<Referee>, mut dice: Dice, ends: Instant) {
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

/// Lets two of five masters at a time go down, hang, lose answers or forget, and lets them sit their quarantine out.
async fn trouble(nodes: &[MemoryNode], mut dice: Dice, ends: Instant) {
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

#[tokio::test(start_paused = true)]
async fn tokens_are_unique_and_increase_however_the_counters_are_skewed() {
    for seed in 1..=10 {
        let mut dice = Dice::new(seed);
        let cluster = MemoryCluster::new(5);
        let managers = [cluster.manager(), cluster.manager(), cluster.manager()];
        let mut last = token(&managers[0]).await;
        for round in 1..20 {
            let fences: Vec<u64> = (0..5).map(|_| FAR + round * 100 + dice.roll(90)).collect();
            if dice.roll(3) == 0 {
                cluster.set_fences("r", &fences).await;
            }
            for _ in 0..3 {
                // Another majority every time, some of it late.
                let away = [dice.index(5), dice.index(5)];
                away.iter().for_each(|node| cluster.nodes[*node].set_down(true));
                cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(dice.roll(20))));
                let next = token(&managers[dice.index(3)]).await;
                away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
                cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
                all_vote(&managers).await;
                assert!(next > last, "seed {seed}, round {round}: {next} after {last}");
                last = next;
            }
        }
    }
}

async fn all_vote(managers: &[LockManager]) {
    lock_support::eventually_async("all nodes vote", async || {
        let health = join_all(managers.iter().map(LockManager::health)).await;
        health.iter().all(|health| health.nodes.iter().all(|node| node.admitted))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_largest_of_the_counters_is_no_token_by_itself() {
    // Five acquisitions, each on its own three of five masters with counters of their own: the largest counter of each
    // would be 1, 2, 3, 4, 3.
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    token(&locks).await;
    cluster.set_fences("r", &[FAR; 5]).await;
    let mut tokens = Vec::new();
    for majority in [[0, 1, 2], [0, 1, 2], [0, 3, 1], [0, 3, 4], [2, 3, 4]] {
        let away = (0..5).filter(|node| !majority.contains(node)).collect::<Vec<_>>();
        away.iter().for_each(|node| cluster.nodes[*node].set_down(true));
        tokens.push(token(&locks).await);
        away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
        all_vote(std::slice::from_ref(&locks)).await;
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_costs_one_round_trip_and_a_second_one_only_where_nodes_disagree() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    token(&locks).await;
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

#[tokio::test(start_paused = true)]
async fn tokens_increase_by_the_clock_when_all_counters_were_lost() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let mut last = 0;
    for _ in 0..5 {
        for _ in 0..10 {
            let next = token(&locks).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        assert!(last < 1 << 53, "it fits a JavaScript number");
        cluster.nodes.iter().for_each(MemoryNode::forget);
        // More than any promise covers: all at once. After that the clock is all there is.
        sleep(TTL * 3).await;
        lock_support::eventually_async("locks can be had again", async || locks.health().await.quorum).await;
    }
}
