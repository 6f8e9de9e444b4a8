//! A set of the former format.

use lock_support::{RedisCluster, RedisServer, eventually_async};
use tokio::time::Instant;

use crate::lockctl::{lockctl, replace, urls};
use crate::service::{MAX_TTL, Service, settings};

/// What version 1 of the format left on a master: its record, and a lock that is held.
async fn with_format_1(server: &RedisServer) {
    let info: String = server.query("INFO server").await;
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
    let record =
        format!("run_id {run_id} epoch 00ff format 1 nodes 3 max_ttl 1000 set_name  about - 7 5000000000000000");
    let mut record: Vec<String> = record.split(' ').map(str::to_owned).collect();
    record.splice(0..0, ["HSET".to_owned(), "lock:{node}".to_owned()]);
    let mut query = redis::cmd(&record[0]);
    let mut connection = server.connect().await.unwrap();
    query.arg(&record[1..]).query_async::<u64>(&mut connection).await.unwrap();
}

#[tokio::test]
async fn a_set_of_format_1_is_taken_over_after_all_its_masters_sat_out_a_quarantine() {
    let servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    for server in &servers {
        with_format_1(server).await;
    }
    let began = Instant::now();
    // Whoever comes first, and however short its own locks are.
    let told = lockctl(&list, "replace --timeout 1s").await.expect_not_done();
    assert!(told.contains("joins in"), "{told}");
    for server in &servers {
        let format: String = server.query("HGET lock:{node} format").await;
        assert_eq!(format, "2", "clients of format 1 refuse the master");
        let epoch: String = server.query("HGET lock:{node} epoch").await;
        assert_eq!(epoch, "", "and the master refuses them");
    }
    let service = Service::start(|| settings(&list));
    service.goes_on().await;
    assert!(began.elapsed() > MAX_TTL, "the locks that were granted before have ended: {:?}", began.elapsed());
    replace(&list).await;
    eventually_async("tokens go on", async || {
        let fence: u64 = servers[0].query("HGET lock:{node} 7").await;
        let other: u64 = servers[0].query("HGET lock:{node} 8").await;
        fence >= 5_000_000_000_000_000 && other >= fence
    })
    .await;
    service.stop().await;
}
