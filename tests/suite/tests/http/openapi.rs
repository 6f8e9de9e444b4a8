//! The responses of the lock in an OpenAPI document are those that the lock gives.

use axum::body::Body;
use axum::extract::Path;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::{LockRejection, distributed_lock};
use lock_support::http::{manager, nodes, request};
use serde_json::Value;
use tower::ServiceExt as _;
use utoipa::OpenApi;

#[distributed_lock(resource = "stock:{sku}", wait = "0s", max_hold = "50ms")]
#[utoipa::path(post, path = "/stock/{sku}", params(("sku" = String, Path)), responses((status = 200), LockRejection))]
async fn outlived(Path(sku): Path<String>) {
    _ = sku;
    std::future::pending::<()>().await;
}

#[derive(OpenApi)]
#[openapi(paths(outlived))]
struct Api;

/// The response to a `POST`: its status, whether it says when to try again, and its document.
async fn answer(app: &Router, path: &str) -> (String, bool, Value) {
    let response = app.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let (status, retry) = (response.status(), response.headers().contains_key("retry-after"));
    let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
    (status.as_str().to_owned(), retry, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn an_openapi_document_has_the_responses_of_the_lock() {
    let document = serde_json::to_value(Api::openapi()).unwrap();
    let documented = &document["paths"]["/stock/{sku}"]["post"]["responses"];
    let statuses: Vec<_> = documented.as_object().unwrap().keys().collect();
    assert_eq!(statuses, ["200", "400", "408", "409", "413", "500", "503"]);

    let nodes = nodes();
    let locks = manager(&nodes);
    let app = Router::new().route("/stock/{sku}", on_post(outlived)).layer(Extension(locks.clone()));
    let without_manager = Router::new().route("/stock/{sku}", on_post(outlived));
    let held = locks.lock("stock:held").acquire().await.unwrap();
    let too_long = format!("/stock/{}", "x".repeat(600));
    let mut answers = vec![
        answer(&app, "/stock/held").await,
        answer(&app, "/stock/42").await,
        answer(&app, &too_long).await,
        answer(&without_manager, "/stock/42").await,
    ];
    drop(held);
    nodes.iter().for_each(|node| node.set_down(true));
    answers.push(answer(&app, "/stock/43").await);
    let statuses: Vec<_> = answers.iter().map(|(status, ..)| status.as_str()).collect();
    assert_eq!(statuses, ["409", "500", "400", "500", "503"]);
    for (status, retry, body) in answers {
        let response = &documented[&status];
        assert_eq!(response["headers"]["Retry-After"].is_object(), retry, "{status}");
        let schema = &response["content"]["application/problem+json"]["schema"];
        assert!(schema["properties"]["type"]["enum"].as_array().unwrap().contains(&body["type"]), "{body} as {schema}");
        for field in body.as_object().unwrap().keys() {
            assert!(schema["properties"][field].is_object(), "{field} as {schema}");
        }
        for field in schema["required"].as_array().unwrap() {
            assert!(body[field.as_str().unwrap()] != Value::Null, "{body} as {schema}");
        }
    }
}
