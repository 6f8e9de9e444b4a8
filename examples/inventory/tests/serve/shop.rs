//! The HTTP contract of the shop, over real connections.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::service::Service;

#[tokio::test]
async fn a_purchase_is_answered_with_its_fencing_token() {
    let service = Service::start().await;
    let (status, first) = service.deduct("pear", r#"{"quantity":2}"#).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&first["sku"], &first["quantity"], &first["remaining"]), (&json!("pear"), &json!(2), &json!(23)));
    assert!(first["order_id"].is_i64(), "{first}");

    let (_, second) = service.deduct("pear", r#"{"quantity":1}"#).await;
    assert!(second["token"].as_u64() > first["token"].as_u64(), "{first} {second}");

    let (status, stock) = service.ask(Method::GET, "/stock/pear", "").await;
    assert_eq!((status, stock), (StatusCode::OK, json!({ "sku": "pear", "quantity": 22 })));
    service.stop().await;
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let service = Service::start().await;
    let one = r#"{"quantity":1}"#;
    assert_eq!(service.deduct("quince", one).await.0, StatusCode::OK);

    let kind = |body: &Value| body["type"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let (status, problem) = service.deduct("quince", one).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "sold-out".to_owned()));

    let (status, problem) = service.deduct("unicorn", one).await;
    assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "unknown-sku".to_owned()));

    for bad in [r#"{"quantity":0}"#, r#"{"quantity":-1}"#, r#"{"quantity":"one"}"#, "{}", "not JSON"] {
        let (status, problem) = service.deduct("apple", bad).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "bad-order".to_owned()), "{bad}");
    }
    assert_eq!(service.ask(Method::GET, "/stock/unicorn", "").await.0, StatusCode::NOT_FOUND);
    service.stop().await;
}

#[tokio::test]
async fn readyz_says_whether_locks_can_be_acquired() {
    let service = Service::start().await;
    let (status, _) = service.ask(Method::GET, "/readyz", "").await;
    assert_eq!(status, StatusCode::OK);
    service.stop().await;
}
