//! Settings that all clients of a set share: `max_ttl`, and the number of masters.

use std::time::Duration;

use lock_support::RedisCluster;
use tokio::time::{Instant, sleep};

use crate::lockctl::{generation, lockctl, replace, urls};
use crate::replacing::settled;
use crate::service::{MAX_TTL, Service, settings};

const LONGER: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_service_with_a_longer_max_ttl_raises_that_of_the_set() {
    let servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    let mut service = Service::start(|| settings(&list));
    let generation_before = settled(&service, &list).await;
    service.deploy(|| settings(&list).max_ttl(LONGER)).await;
    let members = replace(&list).await;
    assert!(members.contains("max_ttl 2000 ms, quarantine 2044 ms"), "{members}");
    assert_eq!(generation(&members), generation_before + 1);
    assert!(service.longest_pause() < LONGER, "the locks paused for {:?}", service.longest_pause());
    service.stop().await;
}

#[tokio::test]
async fn max_ttl_is_lowered_when_no_service_needs_the_longer_one() {
    let servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    let mut service = Service::start(|| settings(&list).max_ttl(LONGER));
    settled(&service, &list).await;
    let told = lockctl(&list, "max-ttl 1s --timeout 3s").await.expect_not_done();
    assert!(told.contains("a service with a longer max_ttl"), "{told}");

    service.deploy(|| settings(&list)).await;
    let began = Instant::now();
    let members = lockctl(&list, "max-ttl 1s --timeout 30s").await.expect_done();
    assert!(began.elapsed() > LONGER, "the locks that live longer have ended");
    assert!(members.contains("max_ttl 1000 ms, quarantine 1024 ms"), "{members}");
    for (time, said) in
        [("1s", "max_ttl is 1000 ms already"), ("1m", "max_ttl is 1000 ms, shorter than 60000 ms already")]
    {
        let again = lockctl(&list, &format!("max-ttl {time} --timeout 30s")).await;
        assert!(again.err.starts_with("nothing to do: ") && again.err.contains(said), "{again:?}");
        assert_eq!(again.expect_done(), members);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_number_of_masters_is_changed_while_nothing_runs() {
    let servers = RedisCluster::start(5).await.servers;
    let (three, five) = (urls(&servers[..3]), urls(&servers));
    let mut service = Service::start(|| settings(&three));
    settled(&service, &three).await;
    let told = lockctl(&five, "members").await.expect_not_done();
    assert!(told.contains("number of nodes is 5 here, but 3"), "{told}");

    service.halt().await;
    sleep(MAX_TTL).await;
    for server in &servers {
        server.query::<u64>("DEL lock:{node}").await;
    }
    service.start_again(|| settings(&five));
    settled(&service, &five).await;
    let told = lockctl(&three, "members").await.expect_not_done();
    assert!(told.contains("number of nodes is 3 here, but 5"), "{told}");
    service.stop().await;
}
