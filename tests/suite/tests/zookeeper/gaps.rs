//! The moment after an eviction in which nobody has the lock.

use std::time::Duration;

use futures_util::future::select;
use lock_core::node::{EVICTION_GAP, Eviction, Holder, Operation, OwnerId, Reply};
use lock_support::{ZooKeeperServer, accept, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::set::{connect, node};
use crate::side::{EPOCH, Side, TTL, acquire};

const TOKEN: u64 = 50;

/// The holder of a lock, somebody who wants it, and somebody who is to take it from the holder.
struct Sides {
    holder: Side,
    next: Side,
    evictor: Side,
}

impl Sides {
    /// The evictor has another address of the server.
    async fn new(address: &str, evictors_address: &str) -> Self {
        let holder = Side::new(node(address)).await;
        let (next, evictor) = (holder.beside(node(address)).await, holder.beside(node(evictors_address)).await);
        assert_eq!(holder.send(0, EPOCH, acquire(Self::owner(), TTL)).await, Ok(Reply::Granted { token: 1 }));
        Self { holder, next, evictor }
    }

    fn owner() -> OwnerId {
        OwnerId::from_bits(1)
    }

    async fn evict(&self) -> Result<Eviction, lock_core::NodeError> {
        self.evictor.evict(0, EPOCH, Self::owner(), TOKEN).await
    }

    async fn is_nobodys(&self) {
        let is_nobodys = async || self.next.look(None).await.unwrap()[0].holder == Some(Holder::Owner(OwnerId::NOBODY));
        eventually_async("the lock is nobody's", is_nobodys).await;
    }

    async fn is_granted(&self) {
        let acquire = acquire(OwnerId::from_bits(2), TTL);
        let is_granted = async || matches!(self.next.send(0, EPOCH, acquire).await, Ok(Reply::Granted { .. }));
        eventually_async("the lock is granted again", is_granted).await;
    }

    /// From when the holder is last told that it has the lock until another one has it.
    async fn gap(&self) -> Duration {
        let kept = async {
            loop {
                let asked = Instant::now();
                match self.holder.send(0, EPOCH, Operation::Extend { owner: Self::owner(), ttl: TTL }).await {
                    Ok(Reply::Kept) => sleep(EVICTION_GAP / 50).await,
                    Ok(Reply::Gone) => return asked,
                    other => panic!("{other:?}"),
                }
            }
        };
        let granted = async {
            self.is_granted().await;
            Instant::now()
        };
        let (kept, granted) = tokio::join!(kept, granted);
        granted - kept
    }
}

/// Opens a port that leads to a server, and holds back what is sent there for a time, beginning with the transaction of an eviction.
async fn stalling(server: String, stall: Duration) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let relay = move |client: TcpStream| {
        let server = server.clone();
        async move {
            let server = TcpStream::connect(server).await.unwrap();
            let ((mut requests, mut to_client), (mut replies, mut to_server)) =
                (client.into_split(), server.into_split());
            let there = async {
                let (mut buffer, mut stall) = (vec![0; 16 * 1024], Some(stall));
                let nobody = OwnerId::NOBODY.to_string();
                while let Ok(count @ 1..) = requests.read(&mut buffer).await {
                    let sent = &buffer[..count];
                    let is_eviction = sent.windows(nobody.len()).any(|bytes| bytes == nobody.as_bytes());
                    if let Some(stall) = stall.take_if(|_| is_eviction) {
                        sleep(stall).await;
                    }
                    if to_server.write_all(sent).await.is_err() {
                        return;
                    }
                }
            };
            _ = tokio::join!(there, copy(&mut replies, &mut to_client));
        }
    };
    tokio::spawn(accept(listener, relay));
    format!("127.0.0.1:{port}")
}

// promise: forced-release
#[tokio::test]
async fn nobody_has_the_lock_for_a_moment_after_an_eviction_that_was_carried_out_late() {
    let address = ZooKeeperServer::shared().await;
    let (server, path) = address.split_once('/').unwrap();
    // Longer than the eviction is awaited, and not so long that the connection is given up.
    let stalling = stalling(server.to_owned(), Duration::from_secs(1)).await;
    let sides = Sides::new(&address, &format!("{stalling}/{path}")).await;
    let (evicted, gap) = tokio::join!(timeout(Duration::from_millis(500), sides.evict()), sides.gap());
    assert!(evicted.is_err(), "{evicted:?}");
    assert!(gap >= EVICTION_GAP, "{gap:?}");
}

// promise: forced-release
#[tokio::test]
async fn nobody_has_the_lock_for_a_moment_after_an_eviction_although_the_evictor_goes() {
    let address = ZooKeeperServer::shared().await;
    let sides = Sides::new(&address, &address).await;
    let goes = async {
        tokio::select! {
            biased;
            () = sides.is_nobodys() => {}
            evicted = sides.evict() => panic!("{evicted:?}"),
        }
        sides.evictor.node.disconnect();
    };
    let ((), gap) = tokio::join!(goes, sides.gap());
    assert!(gap >= EVICTION_GAP, "{gap:?}");
}

// promise: forced-release, no-leaks
#[tokio::test]
async fn of_two_evictions_with_one_token_one_that_fails_does_not_leave_the_lock_to_nobody() {
    let address = ZooKeeperServer::shared().await;
    let sides = Sides::new(&address, &address).await;
    // The one that succeeds replies later, and is given up here.
    let (failed, _) = select(Box::pin(sides.evict()), Box::pin(sides.evict())).await.factor_first();
    assert_eq!(failed, Ok(Eviction::Refused { fence: TOKEN }));
    sides.is_nobodys().await;
    sides.is_granted().await;
}

// promise: forced-release
#[tokio::test]
async fn a_forced_release_that_finds_another_ones_gap_waits_until_it_is_over() {
    let address = ZooKeeperServer::shared().await;
    let locks = connect(&address).await;
    let (server, path) = address.split_once('/').unwrap();
    let other = zookeeper_client::Client::connect(server).await.unwrap();
    let (lock, nobody) = (format!("/{path}/lock:/locks/r"), OwnerId::NOBODY.to_string());
    let ephemeral = zookeeper_client::CreateMode::Ephemeral.with_acls(zookeeper_client::Acls::anyone_all());
    other.create(&lock, nobody.as_bytes(), &ephemeral).await.unwrap();
    let began = Instant::now();
    let forced = locks.force_release("r").await.unwrap();
    assert!(forced.evicted.is_empty() && began.elapsed() >= EVICTION_GAP, "{:?} {forced:?}", began.elapsed());
}
