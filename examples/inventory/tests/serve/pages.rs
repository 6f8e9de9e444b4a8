//! The page and its events.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use http_body_util::BodyExt;

use crate::service::{Books, Service};

#[tokio::test]
async fn the_page_is_one_small_file() {
    let service = Service::start().await;
    let response = service.send(Method::GET, "/", &[], "").await;
    assert_eq!(response.status(), StatusCode::OK);
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let page = response.into_body().collect().await.unwrap().to_bytes();
    assert!(page.len() < 50_000, "{} bytes", page.len());
    let page = std::str::from_utf8(&page).unwrap();
    assert!(!page.contains("src=\"http") && !page.contains("@import"), "it loads nothing else");
    service.stop().await;
}

#[tokio::test]
async fn a_page_that_is_opened_later_shows_the_same() {
    let service = Service::start().await;
    assert_eq!(service.buy().await, StatusCode::OK);
    service.press("fence/off").await;
    let mut first = service.open_page().await;
    let before = first.next().await.unwrap();
    drop(first);
    assert_eq!(service.buy().await, StatusCode::OK);
    let after = service.open_page().await.next().await.unwrap();
    assert_eq!(Books::of(&before), Books { stock: 99, orders: 1, oversold: 0 });
    assert_eq!(Books::of(&after), service.books());
    assert_eq!(after["fence"], false);
    service.stop().await;
}

#[tokio::test]
async fn only_so_many_pages_are_open_at_once() {
    let service = Service::start().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(service.open_page().await);
    }
    let refused = service.send(Method::GET, "/events", &[], "").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    open.clear();
    let free = async {
        while service.send(Method::GET, "/events", &[], "").await.status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), free).await.expect("a closed page makes room for another");
    service.stop().await;
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_shutdown() {
    let service = Service::start().await;
    let mut page = service.open_page().await;
    page.next().await.unwrap();
    let (start, grace) = (Instant::now(), Duration::from_secs(10));
    service.stop().await;
    assert!(start.elapsed() < grace, "it waited for the page for {:?}", start.elapsed());
    while page.next().await.is_some() {}
}

#[tokio::test]
async fn a_rush_does_not_hold_up_the_shutdown() {
    let service = Service::start().await;
    service.press("rush").await;
    service.until("a sale", |state| state["orders"].as_i64() > Some(0)).await;
    service.stop().await;
}
