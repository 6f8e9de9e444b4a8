//! Requests for a session on a connection of its own, such as a WebSocket, and what is tried instead.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderName, Request, header};
use axum::response::Response;
use axum::routing::{any, post};
use lock_axum::LockManager;
use lock_axum::testing::{Problem, Question, Trial, post as request};
use tokio::sync::mpsc;

use crate::stores::{Db, payment};

async fn sell(State(db): State<Db>) {
    let stock = db.stock().await;
    payment().await;
    db.sell(stock - 1).await;
}

async fn session(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |_socket| ())
}

fn trial() -> Trial<Db> {
    let app = |_, db| Router::new().route("/", post(sell)).route("/ws", any(session)).with_state(db);
    Trial::new(|| async { Db::default() }).service(app).check(|db, _| db.adds_up())
}

fn handshake() -> Request<Body> {
    let fields: [(HeaderName, &str); 4] = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let request = fields.into_iter().fold(Request::get("/ws"), |request, (name, value)| request.header(name, value));
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_request_for_a_websocket_is_named_and_the_others_are_tried() {
    let outcome = trial().request(|| request("/")).request(handshake).request(|| request("/")).run().await;
    assert!(matches!(outcome.problems[..], [Problem::Upgrade { request: 1 }]), "{outcome}");
    assert!(outcome.to_string().contains("B asks for an upgrade"), "{outcome}");
    assert!(outcome.breaks(Question::Race), "{outcome}");
}

/// What a handler does in `on_upgrade`, with the messages of its socket.
async fn sell_for_each_message(db: Db, mut messages: mpsc::Receiver<()>) {
    while messages.recv().await.is_some() {
        sell(State(db.clone())).await;
    }
}

#[tokio::test]
async fn the_work_of_a_session_is_tried_as_a_task() {
    let session = async |db: Db| {
        let (client, messages) = mpsc::channel(1);
        client.send(()).await.unwrap();
        drop(client);
        sell_for_each_message(db, messages).await;
    };
    let trial = || Trial::new(|| async { Db::default() }).check(|db, _| db.adds_up()).only([Question::Race]);
    let outcome = trial().tasks(2, move |_, db| async move { session(db).await }).run().await;
    assert!(outcome.breaks(Question::Race) && outcome.problems.is_empty(), "{outcome}");
    let guarded = move |locks: LockManager, db| async move { locks.lock("42").run(async |_| session(db).await).await };
    trial().tasks(2, guarded).run().await.assert_holds();
}
