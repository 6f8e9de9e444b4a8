//! Redis Clusters that ask for a login, or for TLS.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockManager, LockManagerBuilder};
use lock_support::{Authority, Events, Kind, SlotCluster, eventually, eventually_async, try_every_kind};

use crate::permissions::{denied, documented_permissions};
use crate::waiter::Waiter;

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// The permissions, and the keys and channels, that the page about operations adds for a cluster.
fn documented_for_clusters() -> (Vec<String>, String) {
    let (_, section) = PAGE.split_once("#### Redis Cluster\n").unwrap();
    let (_, line) = section.split_once("**Permissions**: ").unwrap();
    let codes: Vec<&str> = line.split('`').collect();
    let [_, permissions, _, keys, ..] = codes[..] else { panic!("{line}") };
    (permissions.split(' ').map(str::to_owned).collect(), keys.to_owned())
}

/// Makes a user on all servers who may do what is documented, but for one command.
async fn set_user(cluster: &SlotCluster, without: &str) {
    let (for_clusters, keys) = documented_for_clusters();
    let all = documented_permissions().into_iter().chain(for_clusters);
    let permissions: Vec<_> = all.filter(|permission| *permission != format!("+{without}")).collect();
    let user = format!("ACL SETUSER app reset on >s3cret {keys} {}", permissions.join(" "));
    assert!(cluster.query_all::<String>(&user).await.iter().all(|answer| answer == "OK"));
}

fn over(cluster: &SlotCluster) -> LockManagerBuilder {
    let url = cluster.url().replace("redis://", "redis://app:s3cret@");
    LockManager::builder().redis_cluster([url]).shards(8).node_timeout(Duration::from_secs(1))
}

// promise: exclusion, turns
#[tokio::test]
async fn locks_of_every_kind_work_in_a_cluster_with_the_documented_permissions() {
    let cluster = SlotCluster::start(3, 0).await;
    set_user(&cluster, "").await;
    try_every_kind(|| over(&cluster), &Kind::ALL).await;
    let denials = join_all(cluster.servers.iter().map(denied)).await;
    assert_eq!(denials.concat(), Vec::<String>::new());
    let commands = cluster.query_all::<String>("INFO commandstats").await;
    assert!(commands.iter().any(|commands| commands.contains("cmdstat_spublish")), "waiters were woken");
}

#[tokio::test]
async fn a_login_that_a_cluster_does_not_know_is_refused() {
    let cluster = SlotCluster::start(1, 0).await;
    let refused = over(&cluster).connect().await.unwrap_err();
    let ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) = &refused else { panic!("{refused}") };
    assert!(matches!(refusal, Refusal::Login { .. }), "{refused}");
}

#[tokio::test]
async fn a_user_who_may_not_ask_where_slots_are_is_told_so() {
    let cluster = SlotCluster::start(1, 0).await;
    set_user(&cluster, "cluster|slots").await;
    let refused = over(&cluster).connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err().to_string();
    assert!(refused.contains("cluster|slots") && refused.contains("permission"), "{refused}");
}

// promise: turns
#[tokio::test]
async fn waiters_poll_in_a_cluster_that_denies_sharded_channels() {
    for (without, event) in [("ssubscribe", "lock.node_does_not_call"), ("spublish", "lock.node_calls_nobody")] {
        let events = Events::record();
        let cluster = SlotCluster::start(1, 0).await;
        set_user(&cluster, without).await;
        let [ours, theirs] = [over(&cluster).connect().await.unwrap(), over(&cluster).connect().await.unwrap()];
        let held = ours.lock("r").acquire().await.unwrap();
        let waiting = tokio::spawn(theirs.lock("r").wait(Duration::from_secs(20)).acquire());
        eventually_async("it waits", async || !theirs.waiting().is_empty()).await;
        drop(held);
        drop(waiting.await.unwrap().unwrap());
        eventually("it is said", || !events.named(event).is_empty()).await;
    }
}

/// In processes of their own, because the variable is that of the process.
// promise: turns
#[tokio::test]
async fn all_connections_to_a_cluster_are_over_tls_with_the_login_of_the_url() {
    let authority = Authority::new("ours");
    let (cluster, ports) = SlotCluster::start_over_tls(&authority, 3).await;
    set_user(&cluster, "").await;
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = [format!("rediss://app:s3cret@{}", hosts.join(","))];
    let trust = [("SSL_CERT_FILE", authority.root_file())];
    let trust = trust.each_ref().map(|(name, file)| (*name, file.as_str()));
    let [mut one, mut other] =
        [Waiter::start_with("r", &url, &trust).await, Waiter::start_with("r", &url, &trust).await];
    one.ask(200).await;
    other.ask(200).await;
    eventually("both have had the lock", || one.granted() == 200 && other.granted() == 200).await;
    for (server, port) in cluster.servers.iter().zip(&ports) {
        let clients: String = server.query("CLIENT LIST").await;
        let at = |port: u16| format!(" laddr=127.0.0.1:{port} ");
        let ours: Vec<_> = clients.lines().filter(|client| client.contains(" user=app ")).collect();
        assert_eq!(ours.len(), 2, "one of each process: {clients}");
        assert!(ours.iter().all(|client| client.contains(&at(*port))), "over TLS: {clients}");
    }
    let denials = join_all(cluster.servers.iter().map(denied)).await;
    assert_eq!(denials.concat(), Vec::<String>::new());
}
