//! The buttons of the instances.

use axum::http::StatusCode;

use crate::{
    client::happened,
    service::{Books, Service},
};

#[tokio::test]
async fn the_lock_of_a_killed_instance_ends_with_its_lease() {
    let service = Service::start().await;
    service.press("slow").await;
    let held = service.until("a hold", |state| state["holds"][0]["age_ms"].as_u64() > Some(300)).await;
    let killed = held["holds"][0]["instance"].as_u64().unwrap();
    assert_eq!(service.press(&format!("instances/{killed}/kill")).await, StatusCode::NO_CONTENT);
    let state = service.until_buyers_left().await;
    assert!(happened(&state, "killed"), "{state}");
    assert_eq!(state["killed"], serde_json::json!([killed]));
    let books = service.books();
    assert_eq!((books.oversold, books.stock + books.orders), (0, 100), "{books:?}");
    assert!(books.orders > 0, "the others go on");

    // The lease of a second was renewed after a third of it, so that much more than 300 ms of it were left.
    let bars = state["lanes"]["bars"].as_array().unwrap();
    let end = bars[0][2].as_f64().unwrap();
    let next = bars[1][1].as_f64().unwrap();
    assert!(next - end > 300.0, "nothing was released: {bars:?}");

    assert_eq!(service.press(&format!("instances/{killed}/freeze")).await, StatusCode::NOT_FOUND);
    assert_eq!(service.press(&format!("instances/{killed}/revive")).await, StatusCode::NO_CONTENT);
    for _ in 0..3 {
        assert_eq!(service.buy().await, StatusCode::OK, "each of them serves");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_instance_is_frozen_and_goes_on() {
    let service = Service::start().await;
    assert_eq!(service.press("instances/2/freeze").await, StatusCode::NO_CONTENT);
    service.until("the freeze", |state| state["frozen"] == serde_json::json!([2])).await;
    service.until("the thaw", |state| state["frozen"] == serde_json::json!([])).await;
    assert_eq!(service.press("instances/4/freeze").await, StatusCode::NOT_FOUND);
    service.press("rush").await;
    let state = service.until_buyers_left().await;
    assert_eq!(Books::of(&state), Books { stock: 0, orders: 100, oversold: 0 });
    service.stop().await;
}

#[tokio::test]
async fn a_shop_with_killed_instances_stops() {
    let service = Service::start().await;
    for instance in 1..=3 {
        assert_eq!(service.press(&format!("instances/{instance}/kill")).await, StatusCode::NO_CONTENT);
    }
    assert_eq!(service.buy().await, StatusCode::BAD_GATEWAY);
    service.stop().await;
}
