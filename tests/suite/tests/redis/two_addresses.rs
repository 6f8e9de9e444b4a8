//! Two addresses of one server in one list.

use std::time::Duration;

use lock_core::LockManager;
use lock_support::{Proxy, RedisCluster, all_nodes_vote, eventually_async};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(5);

// promise: membership
#[tokio::test]
async fn a_server_whose_second_address_answers_late_is_not_counted_twice() {
    let cluster = RedisCluster::start(3).await;
    let [one, two, three] = [0, 1, 2].map(|server| cluster.servers[server].url());
    let way_of_theirs = Proxy::open(cluster.servers[1].address()).await;
    let builder = || LockManager::builder().ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_millis(500));
    let theirs = builder().redis([one, way_of_theirs.url(), three.clone()]).connect().await.unwrap();
    all_nodes_vote(&theirs).await;
    way_of_theirs.hold();
    let held = theirs.lock("r").acquire().await.unwrap();

    for delay in [20, 100, 250] {
        let slow = Proxy::open(cluster.servers[1].address()).await;
        slow.hold();
        let ours = builder().redis([slow.url(), two.clone(), three.clone()]).connect_lazy().unwrap();
        let pass = async {
            sleep(Duration::from_millis(delay)).await;
            slow.pass();
        };
        let (granted, ()) = tokio::join!(ours.lock("r").try_acquire(), pass);
        assert!(granted.is_err(), "after {delay} ms, one server is counted twice: {granted:?}");
        assert!(held.is_valid());
        eventually_async("nothing is left on the second server", async || {
            cluster.servers[1].keys("lock:r").await.is_empty()
        })
        .await;
    }
    assert!(held.release().await.unwrap());
}
