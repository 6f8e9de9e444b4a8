//! Who may press the buttons.

use axum::http::{Method, StatusCode};

use crate::service::Service;

#[tokio::test]
async fn buttons_are_for_this_page_and_for_programs() {
    let service = Service::start().await;
    let own = format!("http://{}", service.address);
    let press =
        async |headers: &[(&str, &str)]| service.send(Method::POST, "/control/lock/off", headers, "").await.status();
    for foreign in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("host", "evil.example"),
    ] {
        assert_eq!(press(&[foreign]).await, StatusCode::FORBIDDEN, "{foreign:?}");
    }
    let state = service.until("a state", |_| true).await;
    assert_eq!((&state["lock"], &state["controls"]), (&true.into(), &true.into()));

    assert_eq!(press(&[("origin", &own), ("sec-fetch-site", "same-origin")]).await, StatusCode::NO_CONTENT);
    service.until("the lock is off", |state| state["lock"] == false).await;
    service.stop().await;
}

#[tokio::test]
async fn a_link_presses_nothing() {
    let service = Service::start().await;
    for button in ["rush", "freeze", "slow", "refill", "lock/off", "fence/off", "masters/1/kill", "instances/1/kill"] {
        let (status, _) = service.ask(Method::GET, &format!("/control/{button}"), "").await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{button}");
    }
    for nothing in ["lock/maybe", "masters/0/kill", "masters/6/kill", "masters/1/explode", "instances/0/kill", "paint"]
    {
        let status = service.press(nothing).await;
        assert!(status.is_client_error(), "{nothing}: {status}");
    }
    service.stop().await;
}

#[tokio::test]
async fn buttons_do_nothing_where_others_can_reach_them() {
    let service = Service::on_every_interface().await;
    assert_eq!(service.press("lock/off").await, StatusCode::FORBIDDEN);
    let state = service.until("a state", |_| true).await;
    assert_eq!((&state["lock"], &state["controls"]), (&true.into(), &false.into()));
    assert_eq!(service.buy().await, StatusCode::OK);
    service.stop().await;
}
