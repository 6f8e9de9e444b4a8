//! Who asks about a lock of a Redis Cluster, or takes it from its holder, when another server has its slot by now.

use std::time::Duration;

use lock_core::delegation::AdoptError;
use lock_core::inspection::{ForcedRelease, LockVerdict};
use lock_core::{Kind, LockError, LockManager, LockManagerBuilder, NodeError, NodeVote, Vote};
use lock_support::{SlotCluster, all_nodes_vote, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_millis(1500);

fn over(clusters: &[SlotCluster]) -> LockManagerBuilder {
    let urls = clusters.iter().map(SlotCluster::url);
    LockManager::builder().redis_cluster(urls).ttl(TTL).max_ttl(TTL).node_timeout(TTL / 4)
}

/// Another server of a cluster takes over the only shard, which nobody but this manager notices.
async fn fail_over(cluster: &SlotCluster, locks: &LockManager) {
    let owner = cluster.owner(cluster.slot("{lock:#0}").await).await.unwrap();
    cluster.fail_over(cluster.replica_of(owner)).await;
    eventually_async("it was noticed", async || !locks.health().await.nodes.iter().all(|node| node.admitted)).await;
    all_nodes_vote(locks).await;
}

// promise: minority-faults
#[tokio::test]
async fn what_an_idle_manager_asks_first_is_answered_by_the_servers_that_have_the_slots_by_now() {
    let clusters = [SlotCluster::start(1, 1), SlotCluster::start(1, 1), SlotCluster::start(1, 0)];
    let clusters = futures_util::future::join_all(clusters).await;
    let managers = futures_util::future::join_all((0..4).map(|_| over(&clusters).connect())).await;
    let [locks, inspecting, adopting, forcing] =
        managers.try_into().map(|all: [_; 4]| all.map(Result::unwrap)).unwrap();
    // One after the other: the set remembers. But only one of its masters is where the idle ones know it.
    fail_over(&clusters[0], &locks).await;
    fail_over(&clusters[1], &locks).await;
    let held = locks.lock("r").acquire().await.unwrap();
    let delegation = held.delegate().create().unwrap();

    let verdict = once_connected(async || {
        let report = inspecting.inspect("r").await.unwrap();
        match report.verdict() {
            LockVerdict::NoQuorum => Err(report.nodes.into_iter().filter_map(|node| node.problem).collect()),
            verdict => Ok(verdict),
        }
    });
    assert_eq!(verdict.await, Ok(LockVerdict::Held));

    let adopted = once_connected(async || match adopting.adopt(delegation.as_str(), "r").await {
        Err(AdoptError::NoQuorum { votes, .. }) => Err(votes.into_iter().filter_map(failure).collect()),
        adopted => Ok(adopted.unwrap()),
    });
    let adopted = adopted.await.unwrap();
    assert_eq!((adopted.token(), adopted.kind()), (held.token(), Kind::Write));

    let forced = once_connected(async || forced(&forcing, "r").await).await.unwrap();
    assert!(forced.token > held.token() && forced.evicted.len() == 1, "{forced:?}");
}

// promise: delegation
#[tokio::test]
async fn an_idle_manager_adopts_a_delegation_of_a_set_that_was_formed_again_when_its_own_quarantine_is_over() {
    let clusters = [SlotCluster::start(1, 1).await];
    let [locks, idle] = [over(&clusters).connect().await.unwrap(), over(&clusters).connect().await.unwrap()];
    fail_over(&clusters[0], &locks).await;
    let held = locks.lock("r").acquire().await.unwrap();
    let delegation = held.delegate().expires_in(Duration::from_secs(60)).create().unwrap();
    let asked = Instant::now();
    eventually_async("it is adopted", async || match idle.adopt(delegation.as_str(), "r").await {
        Ok(adopted) => adopted.token() == held.token(),
        Err(AdoptError::OtherSet { .. } | AdoptError::NoQuorum { .. }) => false,
        Err(error) => panic!("{error}"),
    })
    .await;
    assert!(asked.elapsed() < TTL * 4, "{:?}", asked.elapsed());
}

/// Asks again while a connection to a former primary is lost and made again: what is tried is who knows only by the answers that the slots are
/// elsewhere.
async fn once_connected<T>(ask: impl AsyncFn() -> Result<T, Vec<NodeError>>) -> Result<T, Vec<NodeError>> {
    let mut answer = Err(Vec::new());
    eventually_async("there are connections", async || {
        answer = ask().await;
        let is_lost = |error: &NodeError| matches!(error, NodeError::Unreachable { .. });
        !answer.as_ref().is_err_and(|errors| errors.iter().any(is_lost))
    })
    .await;
    answer
}

/// Takes a lock from its holder. Returns why a master did not vote, if none did.
async fn forced(operator: &LockManager, name: &str) -> Result<ForcedRelease, Vec<NodeError>> {
    match operator.force_release(name).await {
        Ok(forced) => Ok(forced),
        Err(LockError::NoQuorum { votes, .. }) => Err(votes.into_iter().filter_map(failure).collect()),
        Err(error) => panic!("{error}"),
    }
}

fn failure(NodeVote { vote, .. }: NodeVote) -> Option<NodeError> {
    match vote {
        Vote::Failed(error) => Some(error),
        _ => None,
    }
}

// promise: forced-release
#[tokio::test]
async fn who_releases_a_lock_by_force_right_after_a_failover_is_told_what_is_waited_for() {
    let clusters = [SlotCluster::start(3, 1).await];
    let (operator, cluster) = (over(&clusters).connect().await.unwrap(), &clusters[0]);
    let owner = cluster.owner(cluster.slot("{lock:#0}").await).await.unwrap();
    cluster.fail_over(cluster.replica_of(owner)).await;
    let told = once_connected(async || forced(&operator, "r").await).await;
    // On a machine that stands still for that long, it may be over.
    assert!(
        told.as_ref().map_or_else(|told| matches!(told[..], [NodeError::Quarantined { .. }]), |_| true),
        "{told:?}"
    );
    eventually_async("the lock can be released", async || forced(&operator, "r").await.is_ok()).await;
}

// promise: forced-release, quarantine
#[tokio::test]
async fn locks_are_released_by_force_when_all_primaries_fail_over_at_once() {
    let clusters = [SlotCluster::start(3, 1).await];
    let cluster = &clusters[0];
    let [operator, locks] = [over(&clusters).shards(4), over(&clusters).shards(4)].map(LockManagerBuilder::connect);
    let (operator, locks) = tokio::join!(operator, locks);
    let (operator, locks) = (&operator.unwrap(), &locks.unwrap());
    let names: Vec<_> = (0..8).map(|name| format!("stock:{name}")).collect();
    let fail_over =
        futures_util::future::join_all((0..3).map(|primary| cluster.fail_over(cluster.replica_of(primary))));
    let release = |name: &str| {
        let name = name.to_owned();
        async move {
            eventually_async("it is released by force", async || forced(operator, &name).await.is_ok()).await;
            // Whatever became of the lock meanwhile.
            let mut before = None;
            eventually_async("the lock is free", async || match locks.lock(&name).acquire().await {
                Ok(guard) => before.replace(guard).is_none(),
                Err(_) => false,
            })
            .await;
            // The last of the primaries may fail over only now.
            let mut token = None;
            eventually_async("it is released by force again", async || {
                token = forced(operator, &name).await.ok().map(|forced| forced.token);
                token.is_some()
            })
            .await;
            assert!(token > before.map(|guard| guard.token()));
        }
    };
    let releases = futures_util::future::join_all(names.iter().map(|name| release(name)));
    tokio::join!(fail_over, releases);
    all_nodes_vote(locks).await;
}

// promise: delegation, quarantine
#[tokio::test]
async fn a_delegation_that_is_adopted_while_its_slot_moves_ends_with_its_lock() {
    let clusters = [SlotCluster::start(3, 0).await];
    let cluster = &clusters[0];
    let [locks, other] = [over(&clusters).connect().await.unwrap(), over(&clusters).connect().await.unwrap()];
    let slot = cluster.slot("{lock:#0}").await;
    for _ in 0..2 {
        all_nodes_vote(&locks).await;
        let held = locks.lock("r").acquire().await.unwrap();
        let delegation = held.delegate().create().unwrap();
        let adopting = async {
            let mut adopted = Vec::new();
            while held.is_valid() {
                match other.adopt(delegation.as_str(), "r").await {
                    Ok(lease) => adopted.push(lease),
                    Err(AdoptError::NoQuorum { .. } | AdoptError::Refused { .. } | AdoptError::OtherSet { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                sleep(Duration::from_millis(5)).await;
            }
            adopted
        };
        let owner = cluster.owner(slot).await.unwrap();
        let moving = cluster.move_slot(slot, owner, (owner + 1) % 3, Duration::from_millis(20));
        let (adopted, ()) = tokio::join!(adopting, moving);
        // The next holder has the lock alone.
        let mut next = None;
        eventually_async("the lock is free", async || {
            next = other.lock("r").acquire().await.ok();
            next.is_some()
        })
        .await;
        assert!(!adopted.is_empty() && adopted.iter().all(|lease| !lease.is_valid()));
    }
}
