//! Purchases whose shop is killed or frozen in the middle, on real Redis servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use lock_axum::delegation::Delegation;
use lock_axum::{LockGuard, LockManager};
use lock_support::http::{Response, request, send};
use lock_support::{RedisCluster, RedisServer, eventually, eventually_async};
use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const TTL: Duration = Duration::from_secs(2);

fn urls(masters: &RedisCluster) -> Vec<String> {
    masters.servers.iter().map(RedisServer::url).collect()
}

/// A process of the example, which is killed when this is dropped.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(arguments: &[&str], masters: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saga"));
        command.args(arguments).env("LOCK_URLS", masters);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { process, address: address.trim().parse().unwrap() }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Two shops, and the services that they use.
struct World {
    shops: [Service; 2],
    warehouse: Service,
    _others: [Service; 2],
    folder: TempDir,
    masters: RedisCluster,
}

impl World {
    async fn start() -> Self {
        let (folder, masters) = (TempDir::new().unwrap(), RedisCluster::start(3).await);
        let urls = urls(&masters).join(",");
        let service = |kind: &[&str], name: &str| {
            let database = folder.path().join(name);
            Service::start(&[kind, &[database.to_str().unwrap()]].concat(), &urls)
        };
        let (warehouse, payments) =
            (service(&["records", "warehouse"], "warehouse"), service(&["payments"], "payments"));
        let shipping = service(&["records", "shipping"], "shipping");
        let [a, b, c] = [&warehouse, &payments, &shipping].map(|service| service.address.to_string());
        let shops = [(); 2].map(|()| Service::start(&["shop", &a, &b, &c], &urls));
        Self { shops, warehouse, _others: [payments, shipping], folder, masters }
    }

    /// Holds the lock of the order, as a shop does.
    async fn hold(&self, order: u64) -> LockGuard {
        let locks = LockManager::builder().redis(urls(&self.masters)).connect().await.unwrap();
        locks.lock(format!("order:{order}")).ttl(TTL).wait(TTL * 2).acquire().await.unwrap()
    }

    /// Asks the warehouse to reserve the goods.
    async fn reserve(&self, order: u64, delegation: Option<&str>) -> Response {
        let mut request = Request::put(format!("/{order}")).header(header::HOST, "localhost");
        if let Some(delegation) = delegation {
            request = request.header(Delegation::HEADER, delegation);
        }
        send(self.warehouse.address, request.body(Body::empty()).unwrap()).await.unwrap()
    }

    fn count(&self, database: &str, query: &str) -> i64 {
        let db = Connection::open(self.folder.path().join(database)).unwrap();
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        db.query_row(query, [], |row| row.get(0)).unwrap()
    }

    /// Whether the last thing that a service did for the order was to do its part, and not to undo it.
    fn is_done(&self, database: &str, order: u64) -> bool {
        let last =
            format!("SELECT coalesce((SELECT done FROM records WHERE order_id = {order} ORDER BY id DESC LIMIT 1), 0)");
        self.count(database, &last) == 1
    }

    fn charges(&self) -> i64 {
        self.count("payments", "SELECT count(*) FROM charges")
    }

    fn assert_completed_once(&self, order: u64) {
        assert!(self.is_done("warehouse", order) && self.is_done("shipping", order));
        assert_eq!(self.charges(), 1);
        assert_eq!(self.count("shipping", "SELECT count(*) FROM records"), 1, "shipped once");
    }
}

async fn buy(shop: SocketAddr, order: u64) -> Option<StatusCode> {
    send(shop, request(&format!("/{order}")).body(Body::empty()).unwrap()).await.ok().map(|response| response.status)
}

// promise: claims
#[tokio::test]
async fn a_purchase_whose_shop_was_killed_is_completed_by_another() {
    let mut world = World::start().await;
    tokio::spawn(buy(world.shops[0].address, 42));
    eventually("the order is being paid", || world.charges() == 1).await;
    world.shops[0].process.kill().unwrap();
    world.shops[0].process.wait().unwrap();
    assert!(!world.is_done("shipping", 42));

    assert_eq!(buy(world.shops[1].address, 42).await, Some(StatusCode::OK));
    world.assert_completed_once(42);
}

// promise: claims
#[tokio::test]
async fn a_shop_that_was_frozen_takes_nothing_back_that_another_has_sold() {
    let world = World::start().await;
    let late = tokio::spawn(buy(world.shops[0].address, 7));
    // It is going to give the goods back.
    eventually("the payment is declined", || world.count("payments", "SELECT count(*) FROM declined") == 1).await;
    world.shops[0].signal(Signal::STOP);

    assert_eq!(buy(world.shops[1].address, 7).await, Some(StatusCode::OK));
    world.shops[0].signal(Signal::CONT);
    let late = late.await.unwrap().unwrap();
    // Its lock was lost, or the warehouse has refused to work under it, if it was faster.
    assert!([StatusCode::INTERNAL_SERVER_ERROR, StatusCode::FORBIDDEN].contains(&late), "{late}");
    world.assert_completed_once(7);
}

// promise: delegation
#[tokio::test]
async fn a_service_works_under_the_lock_of_its_caller_and_without_it_not_at_all() {
    let world = World::start().await;
    let guard = world.hold(42).await;
    let delegation = guard.delegate().audience("warehouse").create().unwrap();
    let text = delegation.as_str().to_owned();
    let forged = format!("{}AAAAAAAA", &text[..text.len() - 8]);
    let for_shipping = guard.delegate().audience("shipping").create().unwrap();
    let elsewhere = RedisCluster::start(1).await;
    let strangers = LockManager::builder().redis(urls(&elsewhere)).connect().await.unwrap();
    let stranger = strangers.lock("order:42").acquire().await.unwrap();
    let foreign = stranger.delegate().create().unwrap();
    let refused = [&forged, for_shipping.as_str(), foreign.as_str(), "not one"];
    for delegation in refused.into_iter().map(Some).chain([None]) {
        let answer = world.reserve(42, delegation).await;
        assert_eq!(
            (answer.status, &*answer.kind()),
            (StatusCode::FORBIDDEN, "lock-delegation-refused"),
            "{delegation:?}"
        );
    }
    assert_eq!(world.reserve(43, Some(&text)).await.status, StatusCode::FORBIDDEN, "another order");
    assert!(!world.is_done("warehouse", 42));

    let reserved = delegation.around(async { Ok::<_, ()>(world.reserve(42, Some(&text)).await.status) }).await;
    assert_eq!(reserved, Ok(StatusCode::OK));
    let token = world.count("warehouse", "SELECT token FROM records");
    assert_eq!(token, guard.token().as_i64());

    // The next holder's lock is not that of the delegation.
    drop(guard);
    let _next = world.hold(42).await;
    assert_eq!(world.reserve(42, Some(&text)).await.status, StatusCode::FORBIDDEN, "replayed after a re-grant");

    let guard = world.hold(44).await;
    let expiring = guard.delegate().expires_in(Duration::from_millis(10)).create().unwrap();
    // By the clocks of the masters, as the other process has read them: by how long a reply took, it is behind.
    let refused = async || world.reserve(44, Some(expiring.as_str())).await.status == StatusCode::FORBIDDEN;
    eventually_async("an expired delegation is refused", refused).await;
}

// promise: delegation
#[tokio::test]
async fn a_lock_that_is_released_while_another_service_works_under_it_is_left_to_expire() {
    let world = World::start().await;
    let guard = world.hold(42).await;
    let delegation = guard.delegate().audience("warehouse").create().unwrap();
    let text = delegation.as_str().to_owned();
    // The warehouse cannot write for now.
    let mut db = Connection::open(world.folder.path().join("warehouse")).unwrap();
    let busy = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let next = {
        let reserving = world.reserve(42, Some(&text));
        let releasing = async {
            assert!(guard.release().await.unwrap());
            let began = Instant::now();
            let next = world.hold(42).await;
            assert!(began.elapsed() > TTL / 4, "it was deleted after {:?}", began.elapsed());
            drop(busy);
            next
        };
        let (reserved, next) = tokio::join!(reserving, releasing);
        assert!([StatusCode::OK, StatusCode::CONFLICT].contains(&reserved.status), "{}", reserved.status);
        next
    };
    assert!(next.is_valid());
}

#[tokio::test]
async fn goods_that_are_not_paid_are_given_back_and_sold_when_they_are() {
    let world = World::start().await;
    assert_eq!(buy(world.shops[0].address, 7).await, Some(StatusCode::PAYMENT_REQUIRED));
    assert!(!world.is_done("warehouse", 7) && world.charges() == 0);
    assert_eq!(buy(world.shops[1].address, 7).await, Some(StatusCode::OK));
    world.assert_completed_once(7);
}

#[test]
fn a_service_does_not_start_without_masters_and_says_how_to_name_them() {
    for masters in ["", "zookeeper://10.0.0.1/locks"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saga"));
        let output = command.args(["shop", "a", "b", "c"]).env("LOCK_URLS", masters).output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("LOCK_URLS names no master: write redis://.. or postgres://.."), "{error}");
    }
}
