//! Masters that forget: backups, standbys, other settings, a single master, and the loss of a majority.

use std::time::Duration;

use lock_support::{Proxy, RedisCluster, RedisServer};
use tokio::time::{Instant, sleep};

use crate::lockctl::{changes_after, generation, lockctl, replace, urls};
use crate::replacing::settled;
use crate::service::{MAX_TTL, Service, settings};

#[tokio::test]
async fn a_master_that_was_restored_from_a_backup_joins_again() {
    let mut servers = RedisCluster::start(2).await.servers;
    servers.push(RedisServer::start_on_disk("always").await);
    let list = urls(&servers);
    let service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    let backup = servers[2].back_up().await;
    service.goes_on().await;
    servers[2].restore(&backup, &[]).await;
    changes_after(&list, generation_before).await;
    assert_eq!(settled(&service, &list).await, generation_before + 1);
    service.stop().await;
}

#[tokio::test]
async fn a_promoted_standby_joins_in_the_place_of_its_master() {
    let mut servers = RedisCluster::start(3).await.servers;
    let old_list = urls(&servers);
    let mut service = Service::start(|| settings(&old_list));
    let generation_before = settled(&service, &old_list).await;
    let replication = Proxy::open(servers[2].address()).await;
    let standby = servers[2].start_standby(&replication, &[]).await;
    let new_list = [urls(&servers[..2]), vec![standby.url()]].concat();
    let told = lockctl(&new_list, "health").await.expect_not_done();
    assert!(told.contains("it is a replica"), "{told}");

    servers[2].kill();
    standby.promote().await;
    service.deploy(|| settings(&new_list)).await;
    let members = replace(&new_list).await;
    assert_eq!(generation(&members), generation_before + 1);
    assert!(members.contains(&standby.address()), "{members}");
    service.stop().await;
}

#[tokio::test]
async fn a_master_that_restarts_with_another_durability_joins_again() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    let service = Service::start(|| settings(&list));
    let mut generation_before = settled(&service, &list).await;
    for server in &mut servers {
        server.restart_with(&["--appendonly", "yes", "--appendfsync", "always"]).await;
        changes_after(&list, generation_before).await;
        generation_before = settled(&service, &list).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn a_single_master_that_restarted_grants_nothing_for_max_ttl() {
    let mut server = RedisServer::start_on_disk("always").await;
    let list = vec![server.url()];
    let service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    let restarted = Instant::now();
    server.restart_with(&[]).await;
    changes_after(&list, generation_before).await;
    settled(&service, &list).await;
    assert!(restarted.elapsed() > MAX_TTL);
    service.stop().await;
}

#[tokio::test]
async fn a_single_durable_master_that_is_trusted_goes_on_when_it_restarted() {
    let max_ttl = Duration::from_secs(3600);
    let mut server = RedisServer::start_on_disk("always").await;
    let list = vec![server.url()];
    let service = Service::start(|| settings(&list).max_ttl(max_ttl).ttl(MAX_TTL).assume_durable(true));
    let generation_before = settled(&service, &list).await;
    server.restart_with(&[]).await;
    service.goes_on().await;
    let members = lockctl(&list, "members --assume-durable").await.expect_done();
    assert_eq!(generation(&members), generation_before);
    service.stop().await;
}

#[tokio::test]
async fn a_set_whose_majority_forgot_is_formed_again_by_those_who_knew_it() {
    let servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    let service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    for server in &servers[1..] {
        server.query::<String>("FLUSHALL").await;
    }
    changes_after(&list, generation_before).await;
    settled(&service, &list).await;
    service.stop().await;
}

#[tokio::test]
async fn a_set_whose_majority_is_gone_is_formed_with_new_masters() {
    let mut servers = RedisCluster::start(5).await.servers;
    let new_list: Vec<String> = [0, 3, 4].map(|server: usize| servers[server].url()).into();
    let old_list = urls(&servers[..3]);
    let mut service = Service::start(|| settings(&old_list));
    let generation_before = settled(&service, &old_list).await;
    servers[1].kill();
    servers[2].kill();
    service.halt().await;
    let lost = Instant::now();

    let told = lockctl(&new_list, "replace --timeout 1s").await.expect_not_done();
    assert!(told.contains("lockctl form"), "{told}");
    let told = lockctl(&new_list, "form --max-ttl 1s").await.expect_not_done();
    assert!(told.contains("--yes"), "{told}");
    let formed = lockctl(&new_list, "form --max-ttl 1s --yes --timeout 30s").await.expect_done();
    assert!(generation(&formed) > generation_before, "{formed}");
    for arguments in ["form --max-ttl 1h --yes", "form --max-ttl 1s"] {
        let again = lockctl(&new_list, arguments).await;
        assert!(again.err.starts_with("nothing to do: set ") && again.err.contains("is formed"), "{again:?}");
        // Behind the first line are the masters, some of which may still have been joining.
        let settings = |report: &str| report.lines().next().map(str::to_owned);
        assert_eq!(settings(&again.expect_done()), settings(&formed), "not even max_ttl is changed");
    }
    service.start_again(|| settings(&new_list));
    settled(&service, &new_list).await;
    assert!(lost.elapsed() > MAX_TTL);
    service.stop().await;
}

// promise: membership
#[tokio::test]
async fn a_service_that_was_not_stopped_forms_no_set_of_the_masters_that_were_lost() {
    let mut servers = RedisCluster::start(8).await.servers;
    let old_list = urls(&servers[..5]);
    let new_list: Vec<String> = [5, 6, 7, 3, 4].map(|server: usize| servers[server].url()).into();
    let mut forgotten = Service::start(|| settings(&old_list));
    settled(&forgotten, &old_list).await;
    servers[..3].iter_mut().for_each(RedisServer::kill);
    let formed = lockctl(&new_list, "form --max-ttl 1s --yes --timeout 30s").await.expect_done();
    let members = replace(&new_list).await;
    assert_eq!(generation(&members), generation(&formed));

    for server in &mut servers[..3] {
        server.restart_empty().await;
    }
    // The service sees them all, and knew the former set.
    sleep(MAX_TTL * 3).await;
    assert_eq!(replace(&new_list).await, members, "the new set keeps all its members");
    for server in &servers[..3] {
        assert!(server.keys("lock:{node}").await.is_empty(), "nobody makes a member of a master that came back empty");
    }
    forgotten.halt().await;
}

#[tokio::test]
async fn a_new_set_is_formed_without_a_master_that_never_comes() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    servers[1].kill();
    lockctl(&list, "form --max-ttl 1s --yes --timeout 30s").await.expect_done();
    let service = Service::start(|| settings(&list));
    service.goes_on().await;
    let members = lockctl(&list, "members").await.expect_not_done();
    assert!(members.contains("vacant"), "{members}");
    servers[1].restart_empty().await;
    settled(&service, &list).await;
    service.stop().await;
}
