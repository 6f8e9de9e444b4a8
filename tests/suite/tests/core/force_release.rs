//! Locks that are inspected, and taken from their holders. In virtual time.

use std::pin::pin;
use std::time::Duration;

use futures_util::poll;
use lock_core::inspection::LockVerdict;
use lock_core::node::{EVICTION_GAP, Kind, Operation, OwnerId, Reply};
use lock_core::{LockError, LockManager, LossReason};
use lock_history::Register;
use lock_support::{Events, MemoryCluster, eventually, eventually_async};
use tokio::time::{Instant, sleep, timeout};

pub(crate) const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(60);

/// Two processes over the same nodes.
pub(crate) async fn two_managers(cluster: &MemoryCluster) -> [LockManager; 2] {
    let builder = || cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT);
    [builder().connect().await.unwrap(), builder().connect().await.unwrap()]
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_caller_that_is_being_handed_the_lock_loses_it_before_a_forced_release_returns() {
    let cluster = MemoryCluster::new(5);
    let [ours, _] = two_managers(&cluster).await;
    let held = ours.lock("r").acquire().await.unwrap();
    let mut next = pin!(ours.lock("r").acquire());
    assert!(poll!(&mut next).is_pending());
    // On its way to the next caller, the lock has no lease.
    drop(held);
    let locks = ours.clone();
    let forced = tokio::spawn(async move { locks.force_release("r").await });
    sleep(EVICTION_GAP / 2).await;
    let next = next.await.unwrap();
    assert!(next.is_valid(), "it does not know");
    forced.await.unwrap().unwrap();
    assert!(!next.is_valid());
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_is_refused_once_the_token_is_claimed() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let stuck = ours.lock("r").acquire().await.unwrap();
    let mut data = Register::default();
    let seen = data.read(stuck.token().get()).unwrap();
    let forced = theirs.force_release("r").await.unwrap();
    assert!(data.read(forced.token.get()).is_some());
    assert!(stuck.is_valid(), "it does not know");
    assert!(!data.write(stuck.token().get(), seen + 1));
    let next = theirs.lock("r").try_acquire().await.unwrap();
    assert!(data.write(next.token().get(), seen + 1));
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn the_token_is_above_all_that_the_evicted_holder_had_reserved() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let first = ours.lock("r").acquire().await.unwrap();
    let callers: Vec<_> = (0..20).map(|_| tokio::spawn(ours.lock("r").acquire())).collect();
    let blocker = tokio::spawn(theirs.lock("r").wait(Duration::ZERO).acquire());
    assert!(blocker.await.unwrap().is_err());
    sleep(TTL / 10).await;
    first.release().await.unwrap();
    // The next one reserved tokens for those behind it, and has handed the lock over to some of them.
    let (mut tokens, mut forced) = (Vec::new(), None);
    for (number, caller) in callers.into_iter().enumerate() {
        let guard = caller.await.unwrap().unwrap();
        if number == 3 {
            let theirs = theirs.clone();
            forced = Some(tokio::spawn(async move { theirs.force_release("r").await }));
            sleep(Duration::from_millis(1)).await;
        }
        tokens.push(guard.token());
        drop(guard);
    }
    let forced = forced.unwrap().await.unwrap().unwrap().token;
    // The former holder hands the lock over while nobody else can have it, but the resource refuses all of its tokens.
    let (block, later) = tokens.split_at(16);
    assert!(block.windows(2).all(|pair| pair[1].get() == pair[0].get() + 1), "{tokens:?}");
    assert!(block[15] < forced && later.iter().all(|token| *token > forced), "{forced} {tokens:?}");
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_cannot_renew() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let stuck = ours.lock("r").acquire().await.unwrap();
    // One node is away meanwhile, and has its key still.
    cluster.nodes[0].set_down(true);
    let began = Instant::now();
    let forced = theirs.force_release("r").await.unwrap();
    assert_eq!((forced.evicted.len(), forced.freed_on.len()), (1, 4));
    cluster.nodes[0].set_down(false);
    timeout(TTL, stuck.lost()).await.unwrap();
    assert!(began.elapsed() <= TTL / 3 + Duration::from_millis(100), "{:?}", began.elapsed());
    let Err(LockError::Lost { reason, .. }) = stuck.check() else { panic!("still held") };
    assert_eq!(reason, LossReason::Gone);
    drop(stuck);
    eventually("no key is left", || cluster.holding() == 0).await;
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_evicted_holder_of_the_same_manager_is_notified_at_once() {
    let cluster = MemoryCluster::new(3);
    let [ours, _] = two_managers(&cluster).await;
    let stuck = ours.lock("r").acquire().await.unwrap();
    let began = Instant::now();
    let told = async {
        stuck.lost().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(ours.held().is_empty());
    };
    tokio::join!(told, async { ours.force_release("r").await.unwrap() });
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_of_an_evicted_holder_as_soon_as_anybody_may() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let _stuck = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    sleep(TTL / 10).await;
    let began = Instant::now();
    let forced = ours.force_release("r").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    // Not before the nodes grant the lock again, and no later than a waiter of an ordinary release.
    let granted = began.elapsed() - next.age();
    assert!((EVICTION_GAP..EVICTION_GAP + Duration::from_millis(50)).contains(&granted), "{granted:?}");
    assert!(forced.token < next.token());
    assert!(forced.evicted.len() == 1 && forced.freed_on.len() == 5, "{forced:?}");
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn an_attempt_in_progress_keeps_nobody_from_being_evicted() {
    let cluster = MemoryCluster::new(3);
    let [ours, theirs] = two_managers(&cluster).await;
    let others = cluster.raw(2).await;
    cluster.nodes[2].set_down(true);
    let stuck = ours.lock("r").renew(false).acquire().await.unwrap();
    cluster.nodes[2].set_down(false);
    let attempt = OwnerId::from_bits(7);
    let acquire =
        Operation::Acquire { owner: attempt, ttl: TTL * 10, hint: 0, tokens: 1, since: None, kind: Kind::Write };
    eventually_async("the node has the key of an attempt", async || {
        matches!(others.send("r", acquire).await, Ok(Reply::Granted { .. }))
    })
    .await;
    let forced = theirs.force_release("r").await.unwrap();
    assert_eq!(forced.freed_on.len(), 2);
    assert_eq!(cluster.nodes[2].lock_keys(), ["lock:r"]);
    assert!(forced.token > stuck.token());
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn two_forced_releases_never_have_the_same_token() {
    for _ in 0..20 {
        let cluster = MemoryCluster::new(5);
        for (node, delay) in cluster.nodes.iter().zip([0, 3, 1, 2, 0]) {
            node.set_delay(Duration::from_millis(delay));
        }
        let [ours, theirs] = two_managers(&cluster).await;
        let stuck = ours.lock("r").acquire().await.unwrap();
        let (one, other) = tokio::join!(ours.force_release("r"), theirs.force_release("r"));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_ne!(one.token, other.token);
        assert!(stuck.token() < one.token.min(other.token));
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_holds_is_not_taken_from_anybody_but_a_token_is_issued() {
    let cluster = MemoryCluster::new(5);
    let [ours, _] = two_managers(&cluster).await;
    let before = ours.lock("r").acquire().await.unwrap();
    let former = before.token();
    before.release().await.unwrap();
    let forced = ours.force_release("r").await.unwrap();
    assert!(forced.evicted.is_empty() && forced.freed_on.is_empty(), "{forced:?}");
    let next = ours.lock("r").acquire().await.unwrap();
    assert!(former < forced.token && forced.token < next.token());
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn without_a_majority_nobody_is_evicted() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let held = ours.lock("r").acquire().await.unwrap();
    cluster.nodes[2..].iter().for_each(|node| node.set_down(true));
    let Err(LockError::NoQuorum { votes, .. }) = theirs.force_release("r").await else { panic!("a minority evicted") };
    assert_eq!(votes.len(), 3);
    cluster.nodes[2..].iter().for_each(|node| node.set_down(false));
    sleep(TTL * 2).await;
    assert!(held.is_valid() && cluster.holding() == 5);
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_report_tells_what_each_node_has() {
    let cluster = MemoryCluster::new(3);
    let [ours, theirs] = two_managers(&cluster).await;
    assert_eq!(ours.inspect("r").await.unwrap().verdict(), LockVerdict::Free);

    let held = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    sleep(Duration::from_millis(100)).await;
    let report = theirs.inspect("r").await.unwrap();
    assert_eq!((report.verdict(), report.nodes.len()), (LockVerdict::Held, 3));
    for node in &report.nodes {
        assert!(node.votes && !node.stranger && node.problem.is_none(), "{node:?}");
        assert_eq!((node.holder, node.waiters), (report.holder, 1));
        assert!(node.fence >= Some(held.token().get()) && node.remaining > Some(TTL / 2));
    }
    let evicted = report.holder.unwrap();
    theirs.force_release("r").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let report = theirs.inspect("r").await.unwrap();
    assert!(report.holder.is_some_and(|holder| holder != evicted));
    assert!(report.nodes.iter().all(|node| node.evicted == [evicted]));
    drop(next);

    // One that lost its data, and does not vote. It says so, and what it has.
    cluster.nodes[0].forget();
    eventually("the keys are released", || cluster.holding() == 0).await;
    sleep(Duration::from_millis(100)).await;
    let report = ours.inspect("r").await.unwrap();
    assert_eq!(report.verdict(), LockVerdict::Free);
    assert!(!report.nodes[0].votes && report.nodes[0].problem.is_some() && report.nodes[0].fence.is_some());

    cluster.nodes[1].set_down(true);
    let report = ours.inspect("r").await.unwrap();
    assert_eq!((report.verdict(), report.nodes[1].fence), (LockVerdict::NoQuorum, None));
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_lock_on_which_the_nodes_do_not_agree_is_split_and_can_be_freed() {
    let cluster = MemoryCluster::new(3);
    let [ours, _] = two_managers(&cluster).await;
    for node in 0..3 {
        let owner = OwnerId::from_bits(node as u128 + 1);
        let acquire = Operation::Acquire { owner, ttl: TTL * 10, hint: 0, tokens: 1, since: None, kind: Kind::Write };
        cluster.raw(node).await.send("r", acquire).await.unwrap();
    }
    let report = ours.inspect("r").await.unwrap();
    assert_eq!((report.verdict(), report.holder), (LockVerdict::Split, None));
    let forced = ours.force_release("r").await.unwrap();
    assert_eq!((forced.evicted.len(), forced.freed_on.len()), (3, 3));
    assert!(ours.lock("r").try_acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn names_and_shutdown_are_checked() {
    let cluster = MemoryCluster::new(3);
    let [ours, _] = two_managers(&cluster).await;
    assert!(matches!(ours.inspect("").await, Err(LockError::InvalidResource { .. })));
    assert!(matches!(ours.force_release("{}").await, Err(LockError::InvalidResource { .. })));
    ours.shutdown(Duration::ZERO).await;
    assert!(matches!(ours.inspect("r").await, Err(LockError::ShuttingDown { .. })));
    assert!(matches!(ours.force_release("r").await, Err(LockError::ShuttingDown { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_is_logged_and_shows_no_owner_id() {
    let cluster = MemoryCluster::new(3);
    let [ours, _] = two_managers(&cluster).await;
    let _stuck = ours.lock("r").acquire().await.unwrap();
    let events = Events::record();
    let forced = ours.force_release("r").await.unwrap();
    let logged = events.named("lock.force_released");
    assert_eq!(logged.len(), 1);
    let text = format!("{:?}", logged[0]);
    assert!(text.contains(&forced.token.to_string()) && text.contains(&forced.evicted[0].to_string()), "{text}");
    assert!(!text.contains(OwnerId::PREFIX), "{text}");
}
