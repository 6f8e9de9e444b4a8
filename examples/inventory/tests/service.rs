//! The HTTP contract of the service, over real connections.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, but not in their helper functions")]

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Bytes,
    http::{Method, Request, StatusCode},
};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use inventory::{RunError, ServeConfig, serve};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

struct Service {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Service {
    async fn start() -> Self {
        let config = ServeConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            redis: Vec::new(),
            prefix: "inventory:".to_owned(),
            database: None,
        };
        let stop = CancellationToken::new();
        let (listening, address) = oneshot::channel();
        let task = tokio::spawn(serve(config, stop.clone().cancelled_owned(), |address| {
            listening.send(address).unwrap();
        }));
        Self { address: address.await.unwrap(), stop, task }
    }

    async fn ask(&self, method: Method, path: &str, body: &'static str) -> (StatusCode, Value) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        let response = client.request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn deduct(&self, sku: &str, body: &'static str) -> (StatusCode, Value) {
        self.ask(Method::POST, &format!("/stock/{sku}/deduct"), body).await
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(Duration::from_secs(30), self.task).await.unwrap().unwrap().unwrap();
    }
}

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
async fn health_tells_whether_the_masters_have_a_quorum() {
    let service = Service::start().await;
    let (status, health) = service.ask(Method::GET, "/health", "").await;
    assert_eq!((status, &health["quorum"]), (StatusCode::OK, &json!(true)));
    service.stop().await;
}
