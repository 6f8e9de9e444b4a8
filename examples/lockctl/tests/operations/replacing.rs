//! New sets, new masters and new addresses.

use lock_support::{Proxy, RedisCluster, RedisServer};

use crate::lockctl::{changes_after, generation, lockctl, replace, urls};
use crate::service::{MAX_TTL, Service, settings};

#[tokio::test]
async fn a_new_set_is_formed_as_soon_as_all_masters_answer() {
    let mut servers = RedisCluster::start(3).await.servers;
    let urls = urls(&servers);
    servers[2].kill();
    let service = Service::start(|| settings(&urls));
    let told = lockctl(&urls, "members").await.expect_not_done();
    assert!(told.contains("no set is known") && told.contains("form_with_missing"), "{told}");
    servers[2].restart_empty().await;
    let ended = lockctl(&urls, "replace --timeout 30s").await;
    assert!(!ended.err.contains("joined"), "a new set needs no quarantine: {ended:?}");
    ended.expect_done();
    service.stop().await;
}

#[tokio::test]
async fn a_master_is_replaced() {
    let mut servers = RedisCluster::start(4).await.servers;
    let new = servers.pop().unwrap();
    let old_list = urls(&servers);
    let new_list = [urls(&servers[..2]), vec![new.url()]].concat();
    let mut service = Service::start(|| settings(&old_list));
    let generation_before = settled(&service, &old_list).await;

    servers[2].kill();
    let health = lockctl(&old_list, "health").await.expect_not_done();
    assert!(health.starts_with("locks can be acquired") && health.contains("not reachable"), "{health}");
    service.deploy(|| settings(&new_list)).await;
    let members = replace(&new_list).await;
    assert!(members.contains(&new.address()) && !members.contains(&servers[2].address()), "{members}");
    assert_eq!(generation(&members), generation_before + 1);
    service.stop().await;
}

/// Waits until the service works with all of its masters. Returns the generation of the set.
pub(crate) async fn settled(service: &Service, urls: &[String]) -> u64 {
    service.goes_on().await;
    generation(&replace(urls).await)
}

#[tokio::test]
async fn all_masters_are_replaced_one_after_another_under_load() {
    let max_ttl = 2 * MAX_TTL;
    let mut servers = RedisCluster::start(3).await.servers;
    let settings = |urls: &[String]| settings(urls).max_ttl(max_ttl);
    let mut service = Service::start(|| settings(&urls(&servers)));
    let first = settled(&service, &urls(&servers)).await;
    for (replaced, seat) in (1..).zip(0..3) {
        let old_list = urls(&servers);
        let _old = std::mem::replace(&mut servers[seat], RedisServer::start().await);
        let new_list = urls(&servers);
        service.deploy(|| settings(&new_list)).await;
        assert_eq!(generation(&replace(&new_list).await), first + replaced);
        let told = lockctl(&old_list, "members").await.expect_not_done();
        assert!(told.contains(&format!("not a member since generation {}", first + replaced)), "{told}");
        service.goes_on().await;
    }
    assert!(service.longest_pause() < max_ttl, "the locks paused for {:?}", service.longest_pause());
    service.stop().await;
}

#[tokio::test]
async fn a_master_with_another_name_is_still_the_same_member() {
    let servers = RedisCluster::start(3).await.servers;
    let mut list = urls(&servers);
    let mut service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    list[2] = format!("redis://localhost:{}", servers[2].port());
    service.deploy(|| settings(&list)).await;
    assert_eq!(settled(&service, &list).await, generation_before);
    assert!(service.longest_pause() < MAX_TTL, "the locks paused for {:?}", service.longest_pause());
    service.stop().await;
}

#[tokio::test]
async fn another_server_behind_the_same_address_joins_as_a_new_member() {
    let mut servers = RedisCluster::start(4).await.servers;
    let new = servers.pop().unwrap();
    let address = Proxy::open(servers[2].address()).await;
    let list = [urls(&servers[..2]), vec![address.url()]].concat();
    let service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    address.lead_to(new.address());
    changes_after(&list, generation_before).await;
    assert_eq!(settled(&service, &list).await, generation_before + 1);
    service.stop().await;
}

#[tokio::test]
async fn an_old_list_gives_an_empty_server_at_an_old_address_its_seat_back() {
    let mut servers = RedisCluster::start(4).await.servers;
    let new = servers.pop().unwrap();
    let old_list = urls(&servers);
    let new_list = [urls(&servers[..2]), vec![new.url()]].concat();
    let mut service = Service::start(|| settings(&old_list));
    settled(&service, &old_list).await;
    service.deploy(|| settings(&new_list)).await;
    replace(&new_list).await;

    servers[2].restart_empty().await;
    let members = replace(&old_list).await;
    assert!(members.contains(&servers[2].address()), "{members}");
    let told = lockctl(&new_list, "health").await.expect_not_done();
    assert!(told.contains("not a member since") && told.contains("delete its record"), "{told}");
    new.query::<u64>("DEL lock:{node}").await;
    assert!(replace(&new_list).await.contains(&new.address()));
    service.stop().await;
}
