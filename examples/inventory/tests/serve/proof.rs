//! The buttons that make the proof, and what the database says after each.

use axum::http::StatusCode;

use lock_support::PostgresServer;

use crate::{
    client::happened,
    service::{Books, Service},
};

const SOLD_EXACTLY: Books = Books { stock: 0, orders: 100, oversold: 0 };

#[tokio::test]
async fn a_rush_sells_every_unit_once() {
    let service = Service::start().await;
    assert_eq!(service.press("rush").await, StatusCode::ACCEPTED);
    assert_eq!(service.press("rush").await, StatusCode::CONFLICT, "one rush at a time");
    assert_eq!(service.press("refill").await, StatusCode::CONFLICT, "not below the hands of buyers");

    let state = service.until_buyers_left().await;
    assert_eq!((service.books(), Books::of(&state)), (SOLD_EXACTLY, SOLD_EXACTLY));
    assert_eq!((&state["rush"]["last"]["buyers"], &state["counts"]["sold"]), (&300.into(), &100.into()));
    assert!(happened(&state, "granted") || happened(&state, "handed-over"), "{state}");
    assert!(!state["samples"].as_array().unwrap().is_empty(), "{state}");

    assert_eq!(service.press("freeze").await, StatusCode::CONFLICT, "nobody can buy");
    assert_eq!(service.press("refill").await, StatusCode::NO_CONTENT);
    assert_eq!(service.books(), Books { stock: 100, orders: 0, oversold: 0 });
    service.stop().await;
}

#[tokio::test]
async fn without_the_lock_a_rush_oversells() {
    let service = Service::start().await;
    assert_eq!(service.press("lock/off").await, StatusCode::NO_CONTENT);
    service.press("rush").await;
    let state = service.until_buyers_left().await;
    assert!(service.books().oversold > 0, "{:?}", service.books());
    assert_eq!(Books::of(&state), service.books());

    // The cure.
    assert_eq!(service.press("lock/on").await, StatusCode::NO_CONTENT);
    assert_eq!(service.press("refill").await, StatusCode::NO_CONTENT);
    service.press("rush").await;
    service.until("the second rush", |state| state["orders"] == 100).await;
    service.until_buyers_left().await;
    assert_eq!(service.books(), SOLD_EXACTLY);
    service.stop().await;
}

#[tokio::test]
async fn without_the_fence_a_frozen_holder_oversells() {
    let service = Service::start().await;
    assert_eq!(service.press("fence/off").await, StatusCode::NO_CONTENT);
    assert_eq!(service.press("freeze").await, StatusCode::ACCEPTED);
    service.until("the freeze", |state| !state["frozen"].as_array().unwrap().is_empty()).await;
    let state = service.until_buyers_left().await;
    assert!(service.books().oversold > 0, "{:?}", service.books());
    assert_eq!(Books::of(&state), service.books());
    assert!(happened(&state, "frozen") && happened(&state, "lost"), "{state}");
    service.stop().await;
}

#[tokio::test]
async fn the_fence_refuses_a_frozen_holder() {
    let service = Service::start().await;
    assert_eq!(service.press("freeze").await, StatusCode::ACCEPTED);
    let state = service.until_buyers_left().await;
    assert_eq!(service.books(), Books { stock: 88, orders: 12, oversold: 0 });
    assert_eq!(Books::of(&state), service.books());
    assert!(happened(&state, "lost") && happened(&state, "refused"), "{state}");
    assert!(state["counts"]["refused"].as_u64() > Some(0), "{state}");
    service.stop().await;
}

#[tokio::test]
async fn a_slow_holder_is_renewed_and_loses_nothing() {
    let service = Service::start().await;
    assert_eq!(service.press("slow").await, StatusCode::ACCEPTED);
    let held = service.until("a long hold", |state| state["holds"][0]["age_ms"].as_u64() > Some(1_000)).await;
    assert_eq!(held["holds"][0]["resource"], "stock:apple");
    assert!(held["holds"][0]["token"].is_u64() && held["holds"][0]["instance"].is_u64(), "{held}");
    assert!(held["holds"][0]["remaining_ms"].as_u64() > Some(0), "{held}");
    assert!(held["waiting"]["stock:apple"].as_u64() > Some(0), "{held}");
    let state = service.until_buyers_left().await;
    assert!(happened(&state, "renewed") && !happened(&state, "lost"), "{state}");
    assert_eq!(service.books().oversold, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_rush_on_a_stock_in_postgresql_sells_every_unit_once() {
    let mut server = PostgresServer::start().await;
    let service = Service::with_database(server.url().parse().unwrap()).await;
    service.press("rush").await;
    let state = service.until_buyers_left().await;
    assert_eq!(Books::of(&state), SOLD_EXACTLY);
    assert_eq!(service.press("refill").await, StatusCode::NO_CONTENT);

    // Its connections broke, and are replaced.
    server.restart().await;
    service.press("rush").await;
    service.until("the second rush", |state| state["orders"] == 100).await;
    service.until_buyers_left().await;
    let books = "SELECT quantity, (SELECT count(*) FROM orders WHERE sku = 'apple') FROM stock WHERE sku = 'apple'";
    assert_eq!(server.query(books).await, "0|100");
    service.stop().await;
}
