//! Servers and clusters of Valkey, as far as they are installed.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::LockManager;
use lock_support::{Kind, RedisServer, Release, SlotCluster, all_nodes_vote, try_every_kind};

use crate::cluster_faults::{Load, TTL, one_load, slots};

/// The servers of all releases that are installed, for a test.
fn installed(test: &str) -> impl Iterator<Item = PathBuf> {
    Release::VALKEY.into_iter().filter_map(move |release| release.server(test))
}

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_on_valkey() {
    let releases = installed("every_kind_of_lock_is_acquired_renewed_and_released_on_valkey");
    let tried = releases.map(|program| async move {
        let servers = join_all((0..3).map(|_| RedisServer::start_program(&program, &[]))).await;
        let builder = || LockManager::builder().redis(servers.iter().map(RedisServer::url));
        try_every_kind(|| builder().node_timeout(Duration::from_secs(1)), &Kind::ALL).await;
    });
    join_all(tried).await;
}

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_a_cluster_of_valkey() {
    let releases = installed("every_kind_of_lock_is_acquired_renewed_and_released_in_a_cluster_of_valkey");
    let tried = releases.map(|program| async move {
        let cluster = SlotCluster::start_program(&program, 3, 0, &[]).await;
        try_every_kind(|| LockManager::builder().redis_cluster([cluster.url()]).shards(16), &Kind::ALL).await;
    });
    join_all(tried).await;
}

// promise: exclusion, fencing, quarantine
#[tokio::test]
async fn failovers_and_slots_that_move_key_by_key_under_load_lead_to_no_second_holder_on_valkey() {
    let _one = one_load().await;
    for program in installed("failovers_and_slots_that_move_key_by_key_under_load_lead_to_no_second_holder_on_valkey") {
        let cluster = SlotCluster::start_program(&program, 3, 1, &[]).await;
        let (load, locks, tasks) = Load::begin(&cluster).await;
        let (slot, owner) = slots(&cluster).await[0];
        cluster.move_slot(slot, owner, (owner + 1) % 3, Duration::from_millis(20)).await;
        load.all_are_granted().await;
        cluster.fail_over(cluster.replica_of((owner + 1) % 3)).await;
        load.all_are_granted().await;
        all_nodes_vote(&locks).await;
        load.end(tasks).await;
    }
}

// promise: exclusion, fencing, quarantine
#[tokio::test]
async fn slots_that_move_at_once_under_load_and_back_lead_to_no_second_holder() {
    let test = "slots_that_move_at_once_under_load_and_back_lead_to_no_second_holder";
    let Some(program) = Release::Valkey9.server(test) else { return };
    let _one = one_load().await;
    let cluster = SlotCluster::start_program(&program, 3, 0, &[]).await;
    let (load, locks, tasks) = Load::begin(&cluster).await;
    load.longest_without("the start").await;
    for (slot, owner) in slots(&cluster).await.into_iter().take(2) {
        let target = (owner + 1) % 3;
        for (from, to) in [(owner, target), (target, owner)] {
            cluster.move_slot_at_once(slot, from, to).await;
            let without = load.longest_without("a slot that moved at once").await;
            assert!(without > TTL, "the new owner knew the lock, and sat out no quarantine: {without:?}");
        }
    }
    all_nodes_vote(&locks).await;
    load.end(tasks).await;
}
