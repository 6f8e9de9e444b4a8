use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockManager, MemoryNode, ZooKeeperNode};
use lock_support::{ZooKeeperServer, free_port};

use crate::set::{connect, node};

// promise: zookeeper
#[tokio::test]
async fn a_session_that_is_shorter_than_the_longest_lock_is_refused_with_both_times() {
    let server = ZooKeeperServer::start_with("maxSessionTimeout=2000").await;
    let refused = LockManager::builder().zookeeper(server.address()).connect().await.unwrap_err();
    let ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Unusable { reason }, .. }) = refused else {
        panic!("{refused}");
    };
    for part in ["max_ttl 30s", "allow 2s", "34s are needed", "maxSessionTimeout"] {
        assert!(reason.contains(part), "{part} is missing: {reason}");
    }
    let settings = LockManager::builder().nodes([node(&server.address())]).max_ttl(Duration::from_secs(5));
    let refused = settings.connect().await.unwrap_err().to_string();
    assert!(refused.contains("lower .max_ttl(5s) to 1.4s or less"), "{refused}");
    LockManager::builder()
        .nodes([node(&server.address())])
        .max_ttl(Duration::from_millis(1400))
        .connect()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tick_time_out_of_range_is_refused_with_the_range() {
    for tick_time in [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(61), Duration::MAX] {
        let node = ZooKeeperNode::from_address("127.0.0.1:1/locks").unwrap().tick_time(tick_time);
        let refused = LockManager::builder().nodes([node]).connect().await.unwrap_err();
        let ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Unusable { reason }, .. }) = refused
        else {
            panic!("{tick_time:?}: {refused}");
        };
        for part in ["tick_time", "100ms", "60s", &format!("{tick_time:?}")] {
            assert!(reason.contains(part), "{part} is missing: {reason}");
        }
    }
}

#[tokio::test]
async fn the_default_settings_of_servers_allow_the_default_settings_of_a_manager() {
    let server = ZooKeeperServer::start_with("tickTime=2000\nmaxSessionTimeout=40000").await;
    let locks = LockManager::builder().zookeeper(server.address()).connect().await.unwrap();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
}

// promise: zookeeper
#[test]
fn an_ensemble_is_alone_in_its_set() {
    let others = [MemoryNode::new(), MemoryNode::new()];
    let refused = LockManager::builder().zookeeper("zk/locks").nodes(others).connect_lazy().unwrap_err();
    let ConfigError::NotAlone { node, others } = &refused else { panic!("{refused}") };
    assert_eq!((node.as_str(), others.len()), ("zk:2181/locks", 2));
    let text = refused.to_string();
    assert!(
        text.contains("zk:2181/locks")
            && text.contains("cannot be combined with")
            && text.contains("remove the others"),
        "{text}"
    );
}

#[test]
fn an_address_that_is_none_is_refused_without_its_password() {
    let refused = LockManager::builder().zookeeper("app:secret@zk:port").connect_lazy().unwrap_err();
    assert!(matches!(refused, ConfigError::InvalidUrl(_)), "{refused}");
    assert!(!refused.to_string().contains("secret"), "{refused}");
}

#[tokio::test]
async fn an_ensemble_that_does_not_answer_is_named() {
    let address = format!("127.0.0.1:{}/locks", free_port());
    let builder = LockManager::builder().zookeeper(&address).connect_timeout(Duration::from_secs(3));
    let error = builder.connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

// promise: zookeeper
#[tokio::test]
async fn a_user_has_the_znodes_alone_and_another_is_refused_with_the_remedy() {
    let address = ZooKeeperServer::shared().await;
    let locks = connect(&format!("app:s@c/ret@{address}/private")).await;
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    for login in ["", "app:wrong@", "other:s@c/ret@"] {
        let refused = LockManager::builder().nodes([node(&format!("{login}{address}/private"))]);
        let refused = refused.max_ttl(Duration::from_secs(1)).connect().await.unwrap_err();
        let ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Unusable { reason }, .. }) = &refused
        else {
            panic!("{login}: {refused}");
        };
        assert!(reason.contains("no rights on /") && reason.contains("login") && !reason.contains("ret"), "{reason}");
    }
}
