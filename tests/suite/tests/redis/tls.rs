//! Servers that speak TLS.

use std::sync::Arc;
use std::time::Duration;

use lock_core::masters::{InvalidSetting, Refusal};
use lock_core::rustls::ClientConfig;
use lock_core::{
    ConfigError, ConnectError, LockManager, LockManagerBuilder, LockNode as _, MemoryNode, NodeError, RedisNode,
};
use lock_support::{Authority, RedisServer, Sentinel, SlotCluster, eventually, eventually_async, free_port};
use tokio::process::Command;

use crate::authority::{certified_client_of, client_of};
use crate::waiter::Waiter;

const NO_CLIENT_CERTIFICATES: [&str; 2] = ["--tls-auth-clients", "no"];
const HOST: &str = "127.0.0.1";
const TTL: Duration = Duration::from_secs(2);

fn over_tls(urls: &[String], config: &Arc<ClientConfig>) -> LockManagerBuilder {
    LockManager::builder().redis(urls).tls(Arc::clone(config)).node_timeout(Duration::from_secs(1))
}

async fn refusal(builder: LockManagerBuilder) -> String {
    match builder.connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Tls { detail }, .. }) => detail,
        other => panic!("{other}"),
    }
}

/// To how many channels each client at a port of a server has subscribed, but for the one who asks.
async fn clients_at(server: &RedisServer, port: u16) -> Vec<String> {
    let clients: String = server.query("CLIENT LIST").await;
    let at = format!(" laddr={HOST}:{port} ");
    let clients = clients.lines().filter(|client| client.contains(&at) && !client.contains(" cmd=client|list"));
    clients
        .filter_map(|client| client.split(' ').find_map(|word| word.strip_prefix("sub=")).map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn all_connections_are_over_tls_with_user_password_and_database() {
    let authority = Authority::new("ours");
    let (mut servers, mut urls) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (server, port) = authority.server(HOST, &NO_CLIENT_CERTIFICATES).await;
        server.query::<String>("ACL SETUSER app on >s3cret ~lock:* &lock:* +@all").await;
        server.query::<String>("ACL SETUSER default +@all ~* &*").await;
        urls.push(format!("rediss://app:s3cret@{HOST}:{port}/3"));
        servers.push((server, port));
    }
    let (one, other) = (over_tls(&urls, &client_of(&authority)), over_tls(&urls, &client_of(&authority)));
    let (one, other) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").wait(Duration::from_secs(20)).acquire());
    for (server, port) in &servers {
        eventually_async("votes and wake-ups of the other manager go over TLS", async || {
            let clients = clients_at(server, *port).await;
            clients.len() == 2 && clients.iter().filter(|subscriptions| *subscriptions == "1").count() == 1
        })
        .await;
        assert_eq!(clients_at(server, server.port()).await, Vec::<String>::new(), "none without TLS");
    }
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
}

#[tokio::test]
async fn a_server_that_comes_back_is_connected_to_over_tls_again() {
    let authority = Authority::new("ours");
    let (mut server, port) = authority.server(HOST, &NO_CLIENT_CERTIFICATES).await;
    let url = [format!("rediss://{HOST}:{port}")];
    let lived = Duration::from_millis(300);
    let locks = over_tls(&url, &client_of(&authority)).ttl(lived).max_ttl(lived).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    server.restart_empty().await;
    eventually_async("locks are to be had again", async || locks.lock("r").acquire().await.is_ok()).await;
    assert_eq!(clients_at(&server, port).await.len(), 1);
}

#[tokio::test]
async fn a_server_gets_the_certificate_of_the_client_that_it_wants() {
    let authority = Authority::new("ours");
    let (_server, port) = authority.server(HOST, &["--tls-auth-clients", "yes"]).await;
    let url = [format!("rediss://{HOST}:{port}")];
    let locks = over_tls(&url, &certified_client_of(&authority)).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    let detail = refusal(over_tls(&url, &client_of(&authority))).await;
    assert!(detail.contains("certificate of the client"), "{detail}");
}

#[tokio::test]
async fn a_certificate_that_does_not_fit_and_a_port_without_tls_are_refused_with_the_reason() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("another"));
    let (server, port) = authority.server("redis.example", &NO_CLIENT_CERTIFICATES).await;
    let url = [format!("rediss://{HOST}:{port}")];
    let detail = refusal(over_tls(&url, &client_of(&stranger))).await;
    assert!(detail.contains("UnknownIssuer") && detail.contains("a configuration that trusts it with tls"), "{detail}");
    let detail = refusal(over_tls(&url, &client_of(&authority))).await;
    assert!(detail.contains(HOST) && detail.contains("redis.example"), "{detail}");

    // Whether the server takes the handshake for a whole command is chance: it answers with an error, or not at all.
    let plain = [format!("rediss://{HOST}:{}", server.port())];
    let locks = over_tls(&plain, &client_of(&authority)).connect_lazy().unwrap();
    let problem = locks.health().await.nodes[0].problem.clone().unwrap();
    let is_typed = matches!(problem, NodeError::Refused(Refusal::Tls { .. }) | NodeError::Unreachable { .. });
    assert!(is_typed && problem.to_string().contains("is it a port for TLS?"), "{problem}");

    // And the other way round.
    let detail = refusal(LockManager::builder().redis([format!("redis://{HOST}:{port}")])).await;
    assert!(detail.contains("expects TLS") && detail.contains("rediss://"), "{detail}");
}

/// In a process of its own, because the variable is that of the process.
#[tokio::test]
async fn a_url_is_enough_if_the_system_trusts_the_issuer() {
    let authority = Authority::new("ours");
    let (server, port) = authority.server(HOST, &NO_CLIENT_CERTIFICATES).await;
    let url = [format!("rediss://{HOST}:{port}")];
    let mut waiter = Waiter::start_with("r", &url, &[("SSL_CERT_FILE", &authority.root_file())]).await;
    waiter.ask(1).await;
    eventually("it has had the lock", || waiter.granted() == 1).await;
    assert_eq!(clients_at(&server, server.port()).await, Vec::<String>::new(), "none without TLS");
}

#[tokio::test]
async fn a_url_is_refused_if_the_system_trusts_nobody() {
    let empty = tempfile::TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_waiter"));
    command.env("SSL_CERT_DIR", empty.path()).env("SSL_CERT_FILE", empty.path().join("none.pem"));
    let url = format!("rediss://:s3cret@{HOST}:{}", free_port());
    let output = command.args(["r", &url]).output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no trusted certificates") && !error.contains("s3cret"), "{error}");
}

#[test]
fn a_configuration_of_tls_is_only_for_urls_with_tls() {
    let config = client_of(&Authority::new("ours"));
    let refused = |builder: LockManagerBuilder| match builder.tls(Arc::clone(&config)).connect_lazy() {
        Err(ConfigError::InvalidSetting(InvalidSetting { setting: "tls", node, .. })) => node,
        other => panic!("{other:?}"),
    };
    let builder = LockManager::builder;
    assert_eq!(refused(builder().redis(["redis://:s3cret@10.0.0.1"])), "10.0.0.1:6379");
    assert_eq!(refused(builder().redis_cluster(["redis://10.0.0.1,10.0.0.2"])), "cluster:10.0.0.1:6379");
    assert_eq!(refused(builder().sentinel(["10.0.0.1"], "mymaster")), "sentinel:mymaster");
    refused(builder().nodes([MemoryNode::new()]));
    let error = RedisNode::from_url("redis://:s3cret@10.0.0.1").unwrap().tls(Arc::clone(&config)).unwrap_err();
    assert!(error.to_string().contains("rediss://") && !error.to_string().contains("s3cret"), "{error}");
    let error = RedisNode::from_url("rediss://10.0.0.1#insecure").unwrap_err();
    assert!(error.to_string().contains("always checked"), "{error}");
    let node = RedisNode::from_url("rediss://app:s3cret@[::1]:7000/3").unwrap().tls(config).unwrap();
    assert!(node.name().ends_with(":7000/3"), "{}", node.name());
}

#[tokio::test]
async fn a_configuration_of_tls_is_used_for_sentinels_and_the_master_that_they_name() {
    let authority = Authority::new("ours");
    let (server, port) = authority.server(HOST, &["--tls-auth-clients", "yes"]).await;
    let sentinel = Sentinel::start_over_tls(&authority, "mymaster", port).await;
    let config = certified_client_of(&authority);
    let over = || LockManager::builder().sentinel([sentinel.url()], "rediss://mymaster").max_ttl(TTL).ttl(TTL);
    let locks = over().tls(Arc::clone(&config)).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    assert_eq!(clients_at(&server, server.port()).await, Vec::<String>::new(), "none without TLS");
    let stranger = client_of(&Authority::new("another"));
    let refused = over().tls(stranger).connect_timeout(TTL).connect().await.unwrap_err().to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}

#[tokio::test]
async fn a_configuration_of_tls_is_used_for_all_servers_of_a_cluster() {
    let authority = Authority::new("ours");
    let (cluster, ports) = SlotCluster::start_over_tls(&authority, 3).await;
    // One seed: the others are found.
    let over = || LockManager::builder().redis_cluster([format!("rediss://{HOST}:{}", ports[0])]).shards(8);
    let locks = over().tls(client_of(&authority)).connect().await.unwrap();
    for name in 0..50 {
        assert!(locks.lock(format!("r-{name}")).acquire().await.unwrap().release().await.unwrap());
    }
    for (server, port) in cluster.servers.iter().zip(&ports) {
        assert_eq!(clients_at(server, *port).await.len(), 1);
    }
    let detail = refusal(over().tls(client_of(&Authority::new("another")))).await;
    assert!(detail.contains("UnknownIssuer"), "{detail}");
}
