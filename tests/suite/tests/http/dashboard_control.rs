//! The buttons of the dashboard: what they do, and whom they obey. In virtual time.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use lock_axum::{LockManager, dashboard};
use lock_support::http::{Response, manager, nodes};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Presses the button of a row.
async fn press(locks: &LockManager, resource: &str, token: Value, headers: &[(&str, &str)]) -> Response {
    let app: Router = Router::new().nest("/locks", dashboard(locks.clone()).with_control().into());
    let mut request = Request::post("/locks/release").header(header::HOST, "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = json!({ "resource": resource, "token": token }).to_string();
    let (parts, body) = app.oneshot(request.body(Body::from(body)).unwrap()).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Response { status: parts.status, headers: parts.headers, body }
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(start_paused = true)]
async fn a_button_takes_the_lock_from_its_holder_here_or_elsewhere() {
    let nodes = nodes();
    let (here, there) = (manager(&nodes), manager(&nodes));
    for (holder, shows_token) in [(&here, true), (&there, false)] {
        let guard = holder.lock("stock:42").acquire().await.unwrap();
        let token = if shows_token { guard.token().to_string().into() } else { Value::Null };
        let answer = press(&here, "stock:42", token, &[JSON]).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let issued: Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(issued["token"].as_str().unwrap().parse::<u64>().unwrap() > guard.token().get());
        let next = here.lock("stock:42").try_acquire().await.unwrap();
        assert!(next.release().await.unwrap());
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_button_takes_the_lock_from_all_its_readers() {
    let nodes = nodes();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let readers = [here.read("r").acquire().await.unwrap(), here.read("r").acquire().await.unwrap()];
    let elsewhere = there.read("r").acquire().await.unwrap();
    let token = readers[1].token().to_string().into();
    let answer = press(&here, "r", token, &[JSON]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert!(readers.iter().all(|reader| !reader.is_valid()));
    assert!(here.lock("r").try_acquire().await.is_ok());
    drop((readers, elsewhere));
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_holder_has_changed_is_left_alone() {
    let locks = manager(&nodes());
    let former = locks.lock("stock:42").acquire().await.unwrap();
    let shown = former.token().to_string();
    former.release().await.unwrap();
    let next = locks.lock("stock:42").acquire().await.unwrap();
    for token in [shown.into(), Value::Null] {
        let answer = press(&locks, "stock:42", token, &[JSON]).await;
        assert_eq!(answer.status, StatusCode::CONFLICT);
        assert_eq!(answer.problem()["detail"], "its holder has changed since it was shown");
    }
    assert!(next.is_valid());
    assert!(next.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn other_sites_and_their_forms_release_nothing() {
    let locks = manager(&nodes());
    let guard = locks.lock("stock:42").acquire().await.unwrap();
    let token = || guard.token().to_string().into();
    for (headers, status) in [
        (&[JSON, ("origin", "https://evil.example")] as &[_], StatusCode::FORBIDDEN),
        (&[JSON, ("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        (&[("content-type", "text/plain")], StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (&[], StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        assert_eq!(press(&locks, "stock:42", token(), headers).await.status, status, "{headers:?}");
    }
    assert_eq!(press(&locks, "", Value::Null, &[JSON]).await.status, StatusCode::BAD_REQUEST);
    // A token that is not text is not taken for none.
    assert_eq!(press(&locks, "stock:42", guard.token().get().into(), &[JSON]).await.status, StatusCode::BAD_REQUEST);
    let app = Router::from(dashboard(locks.clone()).with_control());
    let get = Request::get("/release").body(Body::empty()).unwrap();
    assert_eq!(app.oneshot(get).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(guard.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn with_redacted_names_there_is_nothing_to_press() {
    let locks = LockManager::builder().nodes(nodes()).redact(true).connect().await.unwrap();
    let guard = locks.lock("stock:42").acquire().await.unwrap();
    let token = guard.token().to_string().into();
    assert_eq!(press(&locks, "stock:42", token, &[JSON]).await.status, StatusCode::NOT_FOUND);
    assert!(guard.release().await.unwrap());
}
