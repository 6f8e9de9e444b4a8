//! What errors say about real servers: what is wrong, and what to do.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, NodeError, Vote};
use lock_support::{RedisCluster, RedisServer, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_is_down_is_called_not_reachable_once() {
    let mut cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    cluster.servers[0].kill();
    cluster.servers[1].kill();
    let error = locks.lock("r").acquire().await.unwrap_err();
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    for vote in &votes[..2] {
        assert_eq!(vote.to_string().matches("not reachable").count(), 1, "{vote}");
    }
    let builder = cluster.builder().connect_timeout(Duration::from_secs(1));
    let error = builder.connect().await.unwrap_err().to_string();
    assert_eq!(error.matches("not reachable").count(), 2, "{error}");
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_recognized() {
    let server = RedisServer::start_with(&["--maxclients", "1"]).await;
    // The connection that found out that the server is up may not be closed yet.
    let mut only_client = None;
    eventually_async("there is room for a client", async || {
        only_client = server.connect().await.ok();
        only_client.is_some()
    })
    .await;
    let builder = || LockManager::builder().redis([server.url()]).connect_timeout(Duration::from_secs(1));
    for connected in join_all((0..10).map(|_| builder().connect())).await {
        let error = connected.unwrap_err().to_string();
        assert!(error.contains("maxclients"), "{error}");
    }
}

/// A server that replies to whatever it is sent with this, and closes the connection.
async fn reply_with(reply: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                _ = stream.read(&mut [0; 1024]).await;
                _ = stream.write_all(reply.as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_server_of_another_kind_is_recognized() {
    let http = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request";
    for reply in [http, "SSH-2.0-OpenSSH_9.2p1\r\n"] {
        let address = reply_with(reply).await;
        let error = LockManager::builder().redis([format!("redis://{address}")]).connect().await.unwrap_err();
        let refused = ConfigError::RefusedNode { node: address.clone(), refusal: Refusal::NotRedis };
        assert_eq!(error, ConnectError::Config(refused), "{error}");
        let text = error.to_string();
        assert!(text.contains(&address) && text.contains("not a Redis server") && !text.contains('\n'), "{text}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_not_called_a_lock_of_another_owner() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    for (resource, create) in
        [("list", "RPUSH lock:list a"), ("hash", "HSET lock:hash a b"), ("set", "SADD lock:set a")]
    {
        cluster.servers[0].query::<i64>(create).await;
        drop(locks.lock(resource).acquire().await.expect("a minority changes nothing"));
        cluster.servers[1].query::<i64>(create).await;
        for wait in [Duration::ZERO, Duration::from_secs(3600)] {
            let error = locks.lock(resource).wait(wait).acquire().await.unwrap_err();
            let LockError::NotALock { votes, .. } = &error else { panic!("{error}") };
            assert_eq!(votes.iter().filter(|vote| vote.vote == Vote::NotALock).count(), 2, "{error}");
            assert_eq!((error.retry_after(), error.resource()), (None, resource));
            let text = error.to_string();
            assert!(text.contains(&format!("{resource:?}")) && text.contains("delete that key"), "{text}");
        }
        assert_eq!(cluster.servers[0].query::<String>(&format!("TYPE lock:{resource}")).await, resource);
        assert!(locks.lock("another").acquire().await.is_ok(), "other locks are not affected");
        assert_eq!(cluster.servers[0].query::<i64>(&format!("DEL lock:{resource}")).await, 1);
        cluster.servers[1].query::<i64>(&format!("DEL lock:{resource}")).await;
        assert!(locks.lock(resource).acquire().await.is_ok());
    }
}

#[tokio::test]
async fn a_record_of_another_type_is_named() {
    let server = RedisServer::start().await;
    server.query::<i64>("RPUSH lock:{node} a").await;
    let error = LockManager::builder().redis([server.url()]).connect().await.unwrap_err();
    let ConnectError::NoQuorum { unreachable, .. } = &error else { panic!("{error}") };
    assert!(matches!(&unreachable[0].1, NodeError::Rejected { code, .. } if code == "WRONGTYPE"), "{error}");
    assert!(error.to_string().contains("use another prefix"), "{error}");
}

#[tokio::test]
async fn one_server_under_two_spellings_of_its_name_is_named_twice() {
    let urls = ["redis://Lock-1", "redis://lock-1:6379/", "redis://lock-2"];
    let error = LockManager::builder().redis(urls).connect_lazy().unwrap_err();
    assert_eq!(error, ConfigError::DuplicateNode { node: "lock-1:6379".into() });
}

#[tokio::test]
async fn what_a_server_says_and_the_remedy_are_one_sentence() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    let error = LockManager::builder().redis([server.url()]).connect().await.unwrap_err().to_string();
    assert!(error.contains("; check user and password"), "{error}");
    assert!(!error.contains(".;"), "{error}");
}
