//! Purchases whose shop is killed or frozen in the middle, on real Redis servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use lock_support::http::{request, send};
use lock_support::{RedisCluster, RedisServer, eventually};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A process of the example, which is killed when this is dropped.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(arguments: &[&str], masters: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saga"));
        command.args(arguments).env("REDIS_URLS", masters);
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
    _masters: RedisCluster,
}

impl World {
    async fn start() -> Self {
        let (folder, masters) = (TempDir::new().unwrap(), RedisCluster::start(3).await);
        let urls: Vec<_> = masters.servers.iter().map(RedisServer::url).collect();
        let service = |kind: &str, name: &str| Service::start(&[kind, folder.path().join(name).to_str().unwrap()], "");
        let warehouse = service("records", "warehouse");
        let (payments, shipping) = (service("payments", "payments"), service("records", "shipping"));
        let [a, b, c] = [&warehouse, &payments, &shipping].map(|service| service.address.to_string());
        let shops = [(); 2].map(|()| Service::start(&["shop", &a, &b, &c], &urls.join(",")));
        Self { shops, warehouse, _others: [payments, shipping], folder, _masters: masters }
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
    // Its lock was lost, or the warehouse has refused its token, if it was faster.
    assert!([StatusCode::INTERNAL_SERVER_ERROR, StatusCode::CONFLICT].contains(&late), "{late}");
    world.assert_completed_once(7);
}

#[tokio::test]
async fn a_service_refuses_the_token_of_an_earlier_holder_and_a_request_without_one() {
    let world = World::start().await;
    assert_eq!(buy(world.shops[0].address, 42).await, Some(StatusCode::OK));
    let undo = || Request::delete("/42").header(header::HOST, "localhost");
    let late = undo().header("x-fencing-token", "1").body(Body::empty()).unwrap();
    assert_eq!(send(world.warehouse.address, late).await.unwrap().status, StatusCode::CONFLICT);
    let without = undo().body(Body::empty()).unwrap();
    assert_eq!(send(world.warehouse.address, without).await.unwrap().status, StatusCode::BAD_REQUEST);
    world.assert_completed_once(42);
}

#[tokio::test]
async fn goods_that_are_not_paid_are_given_back_and_sold_when_they_are() {
    let world = World::start().await;
    assert_eq!(buy(world.shops[0].address, 7).await, Some(StatusCode::PAYMENT_REQUIRED));
    assert!(!world.is_done("warehouse", 7) && world.charges() == 0);
    assert_eq!(buy(world.shops[1].address, 7).await, Some(StatusCode::OK));
    world.assert_completed_once(7);
}
