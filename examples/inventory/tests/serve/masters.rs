//! The buttons of the masters.

use axum::http::StatusCode;
use inventory::LockStore;
use lock_support::{RedisCluster, RedisServer, eventually_async};
use serde_json::Value;

use crate::service::{Books, Service};

fn states(state: &Value) -> Vec<&str> {
    state["masters"].as_array().unwrap().iter().map(|master| master["state"].as_str().unwrap()).collect()
}

async fn press_each(service: &Service, masters: impl IntoIterator<Item = u32>, action: &str) {
    for master in masters {
        assert_eq!(service.press(&format!("masters/{master}/{action}")).await, StatusCode::NO_CONTENT);
    }
}

/// Two of five may fail; with three, nothing is sold, and the shop says so.
async fn a_majority_is_enough_and_needed(action: &str, shown: &str) {
    let service = Service::start().await;
    press_each(&service, [1, 2], action).await;
    service.until("two failed masters", |state| states(state) == [shown, shown, "up", "up", "up"]).await;
    for _ in 0..3 {
        assert_eq!(service.buy().await, StatusCode::OK);
    }
    press_each(&service, [3], action).await;
    for _ in 0..3 {
        assert_eq!(service.buy().await, StatusCode::SERVICE_UNAVAILABLE);
    }
    let sold_before = Books { stock: 97, orders: 3, oversold: 0 };
    assert_eq!(service.books(), sold_before);
    let state = service.until("the loss of the quorum", |state| state["quorum"] == false).await;
    assert_eq!(Books::of(&state), sold_before);
    assert!(state["counts"]["unavailable"].as_u64() >= Some(3), "{state}");

    press_each(&service, 1..=5, "revive").await;
    service.until("the quorum", |state| states(state) == ["up"; 5] && state["quorum"] == true).await;
    // Each instance finds the masters again by itself, and the page shows what one of them has found.
    eventually_async("it sells again", async || service.buy().await == StatusCode::OK).await;
    service.stop().await;
}

#[tokio::test]
async fn two_killed_masters_sell_and_three_do_not() {
    a_majority_is_enough_and_needed("kill", "down").await;
}

#[tokio::test]
async fn two_hung_masters_sell_and_three_do_not() {
    a_majority_is_enough_and_needed("hang", "hung").await;
}

#[tokio::test]
async fn an_emptied_master_joins_again_and_the_shop_sells_meanwhile() {
    let service = Service::start().await;
    assert_eq!(service.buy().await, StatusCode::OK);
    press_each(&service, [4], "empty").await;
    service.until("the quarantine", |state| states(state) == ["up", "up", "up", "joining", "up"]).await;
    assert_eq!(service.buy().await, StatusCode::OK);
    service.until("the return", |state| states(state) == ["up"; 5]).await;
    service.stop().await;
}

#[tokio::test]
async fn real_masters_have_no_buttons_and_everything_else_works() {
    let cluster = RedisCluster::start(3).await;
    let urls = cluster.servers.iter().map(RedisServer::url).collect();
    let service = Service::with_masters(LockStore::Redis(urls)).await;
    let state = service.until("the masters", |state| states(state) == ["up"; 3]).await;
    assert_eq!(state["switches"], false);
    assert_eq!(service.press("masters/1/kill").await, StatusCode::NOT_FOUND);
    service.press("rush").await;
    service.until_buyers_left().await;
    assert_eq!(service.books(), Books { stock: 0, orders: 100, oversold: 0 });
    service.stop().await;
}
