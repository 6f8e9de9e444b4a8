//! Locks of every kind around the same handler, by the layer: the race is found where the kind lets two in, and nowhere else.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::routing::{get as read, post};
use axum::{Extension, Router};
use futures_util::stream;
use lock_axum::testing::{Outcome, Question, Trial, get, post as request};
use lock_axum::{LockLayer, LockManager};

use crate::stores::{Db, payment};

async fn sell(State(db): State<Db>) {
    let stock = db.stock().await;
    payment().await;
    db.sell(stock - 1).await;
}

/// The work is done while the client reads.
async fn sell_in_the_body(State(db): State<Db>) -> Body {
    Body::from_stream(stream::once(async move {
        sell(State(db)).await;
        Ok::<_, Infallible>("sold")
    }))
}

async fn race(layer: fn(LockManager) -> LockLayer) -> Outcome {
    Trial::new(|| async { Db::default() })
        .service(move |locks, db| {
            let routes = Router::new().route("/", post(sell)).route("/body", read(sell_in_the_body));
            routes.route_layer(layer(locks.clone())).layer(Extension(locks)).with_state(db)
        })
        .request(|| request("/"))
        .request(|| get("/body"))
        .check(|db, _| db.adds_up())
        .only([Question::Race])
        .run()
        .await
}

#[tokio::test]
async fn locks_sets_and_one_permit_exclude_and_readers_and_two_permits_do_not() {
    let write = |locks| LockLayer::new(locks, "stock:42").hold_until_body_end();
    race(write).await.assert_holds();
    race(|locks| LockLayer::new_all(locks, ["stock:42", "user:7"]).hold_until_body_end()).await.assert_holds();
    race(|locks| LockLayer::new(locks, "stock:42").permits(1).hold_until_body_end()).await.assert_holds();
    let both: [fn(LockManager) -> LockLayer; 2] = [
        |locks| LockLayer::new(locks, "stock:42").read().hold_until_body_end(),
        |locks| LockLayer::new(locks, "stock:42").permits(2).hold_until_body_end(),
    ];
    for layer in both {
        let outcome = race(layer).await;
        assert!(outcome.takes_locks && outcome.breaks(Question::Race) && outcome.problems.is_empty(), "{outcome}");
    }
}

#[tokio::test]
async fn a_lock_that_ends_before_the_body_is_found() {
    let outcome = race(|locks| LockLayer::new(locks, "stock:42")).await;
    assert!(outcome.breaks(Question::Race) && outcome.problems.is_empty(), "{outcome}");
}
