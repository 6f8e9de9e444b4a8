//! Locks that are divided into shards: each a set of its own, under one manager.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::{
    ConfigError, ConnectError, LockError, LockManager, LockManagerBuilder, LockNode, MemoryNode, NodeError,
    forward_to_node,
};
use lock_support::ShardedMaster;

fn nodes() -> Vec<MemoryNode> {
    (0..3).map(|_| MemoryNode::new()).collect()
}

fn over(nodes: &[MemoryNode], shards: u32) -> LockManagerBuilder {
    LockManager::builder().nodes(nodes.to_vec()).shards(shards)
}

/// Names that are in all of the shards, by chance of one in many that they are not.
fn names() -> impl Iterator<Item = String> {
    (0..500).map(|number| format!("stock:{number}"))
}

/// The shards in which the nodes have locks, by the prefixes of their keys.
fn shards_with_locks(node: &MemoryNode) -> HashSet<String> {
    node.lock_keys().iter().map(|key| key.split("stock:").next().unwrap_or_default().to_owned()).collect()
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn each_lock_is_in_one_shard_and_excludes_across_managers() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    let mut guards = Vec::new();
    for name in names() {
        guards.push(one.lock(name).try_acquire().await.unwrap());
    }
    assert_eq!(shards_with_locks(&nodes[0]).len(), 16);
    assert_eq!(nodes[0].lock_keys().len(), 500, "none is in two shards");
    for name in names() {
        assert!(matches!(other.lock(name).try_acquire().await, Err(LockError::Contended { .. })));
    }
    assert_eq!(one.held().len(), 500);
    for guard in guards {
        assert!(guard.release().await.unwrap());
    }
    for name in names() {
        assert!(other.lock(name).try_acquire().await.is_ok());
    }
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn tokens_of_a_lock_grow_in_whatever_shard_it_is() {
    let locks = over(&nodes(), 64).connect().await.unwrap();
    for name in names().take(200) {
        let first = locks.lock(&name).acquire().await.unwrap();
        let before = first.token();
        first.release().await.unwrap();
        assert!(locks.lock(&name).acquire().await.unwrap().token() > before, "{name}");
    }
}

fn is_refused_for(error: &NodeError, ours: &str, theirs: &str) -> bool {
    let NodeError::Refused(Refusal::OtherSet { field, ours: own, theirs: other }) = error else { return false };
    (*field, own.as_str(), other.as_str()) == ("shards", ours, theirs)
}

#[tokio::test(start_paused = true)]
async fn a_client_with_another_number_of_shards_is_refused_with_both_and_forms_nothing() {
    for (formed, other) in [(1, 16), (16, 1), (16, 4), (4, 16)] {
        let nodes = nodes();
        let locks = over(&nodes, formed).connect().await.unwrap();
        let refused = over(&nodes, other).connect().await;
        let Err(ConnectError::Config(ConfigError::RefusedNode { refusal, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert!(is_refused_for(&refusal.into(), &other.to_string(), &formed.to_string()));

        // Nor does it take a lock in a shard that the others do not have.
        let lazy = over(&nodes, other).connect_lazy().unwrap();
        for name in names().take(100) {
            let _held = locks.lock(&name).acquire().await.unwrap();
            let taken = lazy.lock(&name).try_acquire().await;
            assert!(matches!(taken, Err(LockError::NoQuorum { .. })), "{formed} {other} {taken:?}");
        }
        let health = lazy.health().await;
        assert_eq!(health.shards_without_quorum, (0..other).collect::<Vec<_>>());
    }
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_client_with_another_number_of_shards_is_refused_although_the_first_shard_lost_everything() {
    for (formed, other) in [(16, 1), (16, 4), (4, 16), (2, 1)] {
        let masters: Vec<_> = (0..3).map(|_| ShardedMaster::new(32)).collect();
        let over = |shards| LockManager::builder().nodes(masters.clone()).shards(shards);
        over(formed).connect().await.unwrap().shutdown(Duration::ZERO).await;
        masters.iter().for_each(|master| master.node(0).forget());

        let refused = over(other).connect().await;
        let Err(ConnectError::Config(ConfigError::RefusedNode { refusal, .. })) = refused else {
            panic!("{formed} {other} {refused:?}")
        };
        assert!(is_refused_for(&refusal.into(), &other.to_string(), &formed.to_string()));
        let lazy = over(other).connect_lazy().unwrap();
        for name in names().take(100) {
            let taken = lazy.lock(&name).try_acquire().await;
            assert!(matches!(taken, Err(LockError::NoQuorum { .. })), "{formed} {other} {taken:?}");
        }
        // Those that count the same go on.
        let locks = over(formed).connect().await.unwrap();
        for name in names().take(100) {
            assert!(locks.lock(&name).acquire().await.is_ok(), "{formed} {other}");
        }
    }
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn no_first_shard_is_formed_while_another_one_cannot_be_asked_for_the_number() {
    let masters: Vec<_> = (0..3).map(|_| ShardedMaster::new(32)).collect();
    let over = |shards| LockManager::builder().nodes(masters.clone()).shards(shards);
    over(4).connect().await.unwrap().shutdown(Duration::ZERO).await;
    masters.iter().for_each(|master| master.node(0).forget());
    masters[..2].iter().for_each(|master| master.node(1).set_down(true));
    let locks = over(1).connect_lazy().unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let health = locks.health().await;
    assert_eq!(health.shards_without_quorum, [0]);
    assert!(health.nodes.iter().all(|node| node.problem.is_some()), "{health:?}");
    masters[0].node(1).set_down(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let problem = locks.health().await.nodes[0].problem.clone().unwrap();
    assert!(is_refused_for(&problem, "1", "4"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn no_shard_is_formed_before_the_first_one_is() {
    let nodes = nodes();
    nodes[0].set_down(true);
    let locks = over(&nodes, 4).connect_lazy().unwrap();
    for name in names().take(20) {
        assert!(locks.lock(name).wait(Duration::from_secs(3)).acquire().await.is_err());
    }
    nodes[0].set_down(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    for name in names().take(100) {
        assert!(locks.lock(&name).acquire().await.is_ok(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_of_locks_in_several_shards_is_all_or_nothing() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    let names: Vec<_> = names().take(32).collect();
    let set = one.lock_all(&names).acquire().await.unwrap();
    assert!(shards_with_locks(&nodes[0]).len() > 8, "of 32 names, not every shard has one");
    assert!(other.lock_all(&names[16..]).try_acquire().await.is_err());
    assert_eq!(nodes[0].lock_keys().len(), 32, "what was granted of it is released");
    let next = tokio::spawn({
        let (other, names) = (other.clone(), names.clone());
        async move { other.lock_all(names).wait(Duration::from_secs(30)).acquire().await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    set.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.iter().count(), 32);
}

#[tokio::test(start_paused = true)]
async fn sets_in_opposite_orders_across_shards_do_not_wait_for_each_other_in_a_circle() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    let names: Vec<_> = names().take(8).collect();
    let reversed: Vec<_> = names.iter().rev().cloned().collect();
    let rounds = |locks: LockManager, names: Vec<String>| async move {
        for _ in 0..20 {
            let set = locks.lock_all(&names).wait(Duration::from_secs(30)).acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            set.release().await.unwrap();
        }
    };
    tokio::join!(rounds(one, names), rounds(other, reversed));
}

#[tokio::test(start_paused = true)]
async fn all_permits_of_a_resource_are_in_one_shard() {
    let nodes = nodes();
    let locks = over(&nodes, 64).connect().await.unwrap();
    for name in ["export", "import", "report"] {
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(locks.permits(name, 5).acquire().await.unwrap());
        }
        assert!(locks.permits(name, 5).try_acquire().await.is_err());
        let prefixes: HashSet<_> =
            nodes[0].lock_keys().iter().map(|key| key.split(name).next().unwrap().to_owned()).collect();
        assert_eq!(prefixes.len(), 1);
        let slot = held[0].resource().to_owned();
        let report = locks.inspect(&slot).await.unwrap();
        assert!(report.holder.is_some(), "{report:?}");
        locks.force_release(&slot).await.unwrap();
        assert!(!held[0].is_valid());
        assert!(locks.permits(name, 5).acquire().await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_woken_and_readers_share_in_every_shard() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    for name in names().take(40) {
        let held = one.lock(&name).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let (other, name) = (other.clone(), name.clone());
            async move { other.read(name).wait(Duration::from_secs(5)).acquire().await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(other.waiting().len(), 1);
        held.release().await.unwrap();
        let read = waiting.await.unwrap().unwrap();
        let beside = one.read(&name).acquire().await.unwrap();
        assert!(read.is_valid() && beside.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_delegated_and_adopted_in_every_shard() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    let mut guards = Vec::new();
    for name in names().take(40) {
        guards.push(one.lock(name).ttl(Duration::from_secs(2)).acquire().await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for guard in &guards {
        assert!(guard.is_valid());
        let delegation = guard.delegate().create().unwrap();
        let adopted = other.adopt(delegation.as_str(), guard.resource()).await.unwrap();
        assert_eq!((adopted.token(), adopted.resource()), (guard.token(), guard.resource()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_locks_of_all_shards_and_wakes_their_waiters() {
    let nodes = nodes();
    let [one, other] = [over(&nodes, 16).connect().await.unwrap(), over(&nodes, 16).connect().await.unwrap()];
    let mut guards = Vec::new();
    for name in names().take(50) {
        guards.push(one.lock(name).acquire().await.unwrap());
    }
    let waiting: Vec<_> = names()
        .take(50)
        .map(|name| {
            tokio::spawn({
                let other = other.clone();
                async move { other.lock(name).wait(Duration::from_secs(60)).acquire().await }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.close();
    for waiting in waiting {
        assert!(matches!(waiting.await.unwrap(), Err(LockError::ShuttingDown { .. })));
    }
    let report = one.shutdown(Duration::from_millis(10)).await;
    assert_eq!((report.released, report.revoked), (0, 50));
    assert!(guards.iter().all(|guard| !guard.is_valid()));
    assert_eq!(nodes[0].lock_keys(), Vec::<String>::new());
    let health = one.health().await;
    assert_eq!((health.quorum, health.nodes.len(), health.shards_without_quorum.len()), (false, 48, 16));
}

#[tokio::test(start_paused = true)]
async fn operators_see_every_shard() {
    let nodes = nodes();
    let locks = over(&nodes, 4).max_ttl(Duration::from_secs(20)).connect().await.unwrap();
    let health = locks.health().await;
    assert!(health.quorum && health.shards_without_quorum.is_empty());
    let names: HashSet<_> = health.nodes.iter().map(|node| (node.shard, node.name.clone())).collect();
    assert_eq!(names.len(), 12);
    assert!(health.nodes.iter().all(|node| node.admitted && node.name.ends_with(&format!("#{}", node.shard))));
    let mut sets = HashSet::new();
    for shard in 0..locks.shards() {
        let members = locks.members_of_shard(shard).await.unwrap();
        assert_eq!(members.seats.len(), 3);
        sets.insert(members.set);
    }
    assert_eq!(sets.len(), 4, "each is a set of its own");
    assert!(locks.members_of_shard(4).await.is_none());
    assert_eq!(locks.ready().await, Ok(()));
    nodes[..2].iter().for_each(|node| node.set_down(true));
    let health = locks.health().await;
    assert_eq!(health.shards_without_quorum, [0, 1, 2, 3]);
    assert!(locks.ready().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_to_live_is_lowered_in_every_shard() {
    let nodes = nodes();
    over(&nodes, 4).max_ttl(Duration::from_secs(60)).connect().await.unwrap();
    let locks = over(&nodes, 4).max_ttl(Duration::from_secs(20)).connect().await.unwrap();
    locks.lower_max_ttl(Duration::from_secs(20)).await.unwrap();
    for shard in 0..4 {
        assert_eq!(locks.members_of_shard(shard).await.unwrap().max_ttl, Duration::from_secs(20));
    }
}

#[test]
fn a_number_of_shards_that_is_not_a_power_of_two_up_to_64_is_refused() {
    for shards in [0, 3, 6, 65, 128, u32::MAX] {
        let refused = over(&nodes(), shards).connect_lazy();
        assert_eq!(refused.err(), Some(ConfigError::InvalidShards { shards }));
    }
    let text = ConfigError::InvalidShards { shards: 3 }.to_string();
    assert!(text.starts_with("shards must be 1, 2, 4, 8, 16, 32 or 64, got 3"), "{text}");
}

/// A master of which there is one.
struct Undivided(MemoryNode);

impl LockNode for Undivided {
    forward_to_node!(self => self.0;
        name inspect write_record read_fences submit submit_all look evict wakeups disconnected last_words disconnect);
}

#[test]
fn a_master_that_cannot_be_divided_is_refused() {
    let (node, name) = (MemoryNode::new(), |node: &MemoryNode| node.name().to_owned());
    let refused = LockManager::builder().nodes([Undivided(node.clone())]).shards(2).connect_lazy();
    assert_eq!(refused.err(), Some(ConfigError::UndividedNode { node: name(&node) }));
    let text = ConfigError::UndividedNode { node: "a".into() }.to_string();
    assert!(text.contains("leave shards at 1"), "{text}");
    assert!(LockManager::builder().nodes([Undivided(node)]).shards(1).connect_lazy().is_ok());
}
