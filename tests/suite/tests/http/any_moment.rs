//! Clients that hang up at any moment, while locks of all kinds overlap in layers and handlers of two instances.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::routing::post;
use futures_util::future::join_all;
use futures_util::stream;
use lock_axum::{Hold, Lease, LockLayer, LockManager, distributed_lock};
use lock_support::http::{manager, nodes, serve};
use lock_support::{Dice, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const WAIT: Duration = Duration::from_millis(300);

/// Who is at work on each resource: writers, or those who have a slot, and readers.
#[derive(Clone, Default)]
struct Work(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    at_work: BTreeMap<String, [u32; 2]>,
    most_at_once: BTreeMap<String, u32>,
    begun: u32,
}

/// Is at work until it is dropped.
struct AtWork(Work, String, usize);

impl Work {
    /// Readers together are no more than one.
    fn begin(&self, resource: &str, reads: bool) -> AtWork {
        let mut log = self.0.lock().unwrap();
        let at_work = log.at_work.entry(resource.to_owned()).or_default();
        at_work[usize::from(reads)] += 1;
        let [writers, readers] = *at_work;
        let together = if writers > 0 { writers + readers } else { 1 };
        let most = log.most_at_once.entry(resource.to_owned()).or_default();
        *most = together.max(*most);
        log.begun += 1;
        AtWork(self.clone(), resource.to_owned(), usize::from(reads))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().at_work.get_mut(&self.1).unwrap()[self.2] -= 1;
    }
}

async fn a_while<T>(_at_work: T) -> &'static str {
    sleep(Duration::from_millis(5)).await;
    "done"
}

/// A body in parts, at work until it ends.
fn parts(at_work: impl Send + 'static) -> Body {
    Body::from_stream(stream::unfold((at_work, 0), async |(at_work, part)| {
        sleep(Duration::from_millis(3)).await;
        (part < 3).then(|| (Ok::<_, Infallible>("part;"), (at_work, part + 1)))
    }))
}

#[distributed_lock(resource = "e:{k}", wait = "300ms")]
async fn upload(Path(k): Path<u8>, State(work): State<Work>, _body: Bytes) -> &'static str {
    a_while(work.begin(&format!("e:{k}"), false)).await
}

#[distributed_lock(resource = "e:{k}", wait = "300ms", on_disconnect = "cancel")]
async fn cancelled(Path(k): Path<u8>, State(work): State<Work>) -> &'static str {
    a_while(work.begin(&format!("e:{k}"), false)).await
}

#[distributed_lock(resource = "e:{k}", wait = "300ms", hold = "body")]
async fn body(Path(k): Path<u8>, State(work): State<Work>) -> Body {
    parts(work.begin(&format!("e:{k}"), false))
}

#[distributed_lock(resource = "e:{k}", wait = "300ms", mode = "read", hold = "body")]
async fn body_that_reads(Path(k): Path<u8>, State(work): State<Work>, lease: Lease) -> Body {
    parts(work.begin(&format!("e:{k}"), lease.kind() == lock_axum::Kind::Read))
}

#[distributed_lock(resource = ["f:{k}", "e:{k}"], wait = "300ms", hold = "body")]
async fn body_of_a_set(Path(k): Path<u8>, State(work): State<Work>) -> Body {
    parts([format!("e:{k}"), format!("f:{k}")].map(|resource| work.begin(&resource, false)))
}

#[distributed_lock(resource = "e:{k}", wait = "300ms", hold = "session", max_hold = "1m")]
async fn session(Path(k): Path<u8>, State(work): State<Work>, hold: Hold) {
    tokio::spawn(hold.run(async move |_| _ = a_while(work.begin(&format!("e:{k}"), false)).await));
}

async fn slot(State(work): State<Work>, lease: Lease) -> Body {
    parts(work.begin(lease.resource(), false))
}

/// Each handler alone, and most of them under a layer on the same resource.
fn app(locks: &LockManager, work: &Work) -> Router {
    let layer = |template| LockLayer::new(locks.clone(), template).wait(WAIT);
    let set = || LockLayer::new_all(locks.clone(), ["e:{k}", "f:{k}"]).wait(WAIT);
    let slots = || layer("s").permits(2).hold_until_body_end();
    Router::new()
        .route("/upload/{k}", post(upload))
        .route("/cancelled/{k}", post(cancelled))
        .route("/body/{k}", post(body))
        .route("/read/{k}", post(body_that_reads))
        .route("/set/{k}", post(body_of_a_set))
        .route("/session/{k}", post(session))
        .route("/slot/{k}", post(slot).route_layer(slots()))
        .route("/layer/upload/{k}", post(upload).route_layer(layer("e:{k}")))
        .route("/layer/cancelled/{k}", post(cancelled).route_layer(set()))
        .route("/layer/body/{k}", post(body).route_layer(set()))
        .route("/layer/read/{k}", post(body_that_reads).route_layer(layer("e:{k}").read()))
        .route("/layer/set/{k}", post(body_of_a_set).route_layer(layer("e:{k}")))
        .route("/layer/session/{k}", post(session).route_layer(set()))
        .with_state(work.clone())
}

const PATHS: [&str; 13] = [
    "upload",
    "cancelled",
    "body",
    "read",
    "set",
    "session",
    "slot",
    "layer/upload",
    "layer/cancelled",
    "layer/body",
    "layer/read",
    "layer/set",
    "layer/session",
];

/// Sends a request, perhaps not to its end, and hangs up after a while, unless the answer ends before.
async fn one_request(addresses: [SocketAddr; 2], dice: &mut Dice) {
    let mut stream = TcpStream::connect(addresses[dice.index(2)]).await.unwrap();
    let (path, k) = (PATHS[dice.index(PATHS.len())], dice.roll(2));
    let head =
        format!("POST /{path}/{k} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let sent = [&b"1"[..], b"12", b"12"][dice.index(3)];
    stream.write_all(sent).await.unwrap();
    let patience = [1, 10, 100, 1000][dice.index(4)];
    let mut answer = Vec::new();
    _ = timeout(Duration::from_millis(dice.roll(patience)), stream.read_to_end(&mut answer)).await;
}

// promise: exclusion, no-leaks, bodies-and-sessions
#[tokio::test]
async fn clients_that_hang_up_at_any_moment_leave_nothing_and_let_nobody_else_in() {
    let (nodes, work) = (nodes(), Work::default());
    let instances = [manager(&nodes), manager(&nodes)];
    let addresses =
        [serve(app(&instances[0], &work), &instances[0]).await, serve(app(&instances[1], &work), &instances[1]).await];
    let clients = (0..16).map(|client| async move {
        let mut dice = Dice::new(client);
        for _ in 0..20 {
            one_request(addresses, &mut dice).await;
        }
    });
    join_all(clients).await;
    eventually("nothing is held", || instances.iter().all(|locks| locks.held().is_empty())).await;
    for locks in instances {
        assert_eq!(locks.shutdown(WAIT).await.revoked, 0);
    }
    assert!(nodes.iter().all(|node| node.lock_keys().is_empty()));
    let log = work.0.lock().unwrap();
    assert!(log.begun > 100 && log.at_work.values().all(|at_work| *at_work == [0, 0]), "{:?}", log.at_work);
    assert!(log.most_at_once.values().all(|most| *most == 1), "{:?}", log.most_at_once);
}
