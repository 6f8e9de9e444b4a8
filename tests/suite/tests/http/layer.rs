//! `LockLayer`, over real connections: resources, extractors, errors, and the service below it.

use std::collections::HashMap;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use axum::middleware::map_response;
use axum::routing::post as on_post;
use lock_axum::{FencingToken, KeyError, Lease, LockLayer, LockManager, distributed_lock, encode_value};
use lock_support::eventually_async;
use lock_support::http::{Counter, PATIENCE, is_free, manager, nodes, post, request, send, serve};
use tower::{Layer, Service, ServiceExt};

async fn resource(lease: Lease, token: FencingToken, Extension(same): Extension<FencingToken>) -> String {
    assert_eq!((lease.token(), token), (token, same));
    assert_eq!(Lease::current().unwrap().token(), token);
    lease.resource().to_owned()
}

#[tokio::test]
async fn the_resource_comes_from_path_header_query_or_function() {
    let locks = manager(&nodes());
    let layer = |template: &str| LockLayer::new(locks.clone(), template);
    let by_function = LockLayer::with_key(locks.clone(), |parts: &Parts| {
        let tenant = parts.headers.get("x-tenant").and_then(|value| value.to_str().ok());
        tenant.map(|tenant| format!("tenant:{tenant}")).ok_or_else(|| KeyError::new("x-tenant header is missing"))
    });
    let app = Router::new()
        .route("/stock/{sku}", on_post(resource).route_layer(layer("stock:{sku}")))
        .route("/header", on_post(resource).route_layer(layer("export:{header.x-tenant}")))
        .route("/query", on_post(resource).route_layer(layer("search:{query.q}")))
        .route("/function", on_post(resource).route_layer(by_function))
        .route("/mistake", on_post(resource).route_layer(layer("stock:{sku}")));
    let address = serve(app, &locks).await;
    let tenant = |path: &str| request(path).header("x-tenant", "a:b").body(Body::empty()).unwrap();

    assert_eq!(post(address, "/stock/a%3Ab").await.text(), "stock:a%3Ab");
    assert_eq!(send(address, tenant("/header")).await.unwrap().text(), "export:a%3Ab");
    assert_eq!(post(address, "/query?q=a+b").await.text(), "search:a%20b");
    assert_eq!(send(address, tenant("/function")).await.unwrap().text(), "tenant:a:b");

    for path in ["/header", "/query", "/function"] {
        let response = post(address, path).await;
        assert_eq!((response.status, response.kind().as_str()), (StatusCode::BAD_REQUEST, "lock-key-invalid"));
        assert!(response.problem()["detail"].as_str().unwrap().ends_with("is missing"), "{}", response.text());
    }
    let response = post(address, "/mistake").await;
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.problem()["type"], "about:blank");
}

#[tokio::test]
async fn attribute_and_layer_derive_the_same_resource_from_the_same_values() {
    #[distributed_lock(resource = "stock:{sku}", wait = "0s")]
    async fn handler(Path(sku): Path<String>, inner: Lease) -> String {
        _ = sku;
        inner.token().to_string()
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    let layer = LockLayer::new(locks.clone(), "stock:{sku}");
    let add_token = |response: axum::response::Response| async move {
        let token = response.extensions().get::<FencingToken>().unwrap().to_string();
        ([("x-token", token)], response)
    };
    let app = Router::new().route("/{sku}", on_post(handler)).route_layer(layer).layer(map_response(add_token));
    let address = serve(app, &locks).await;
    let response = post(address, "/a:b%2Fc").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text());
    assert_eq!(
        response.headers["x-token"],
        response.text(),
        "one lock and one token, which outer middleware sees, too"
    );
}

#[tokio::test]
async fn template_key_function_and_manager_exclude_each_other_on_every_value_that_is_encoded() {
    #[distributed_lock(resource = "stock:{sku}", wait = "0s")]
    async fn template(Path(sku): Path<String>) {
        _ = sku;
    }
    #[distributed_lock(key = format!("stock:{}", encode_value(sku)), wait = "0s")]
    async fn key(Path(sku): Path<String>) {}

    let locks = manager(&nodes());
    let by_template = LockLayer::new(locks.clone(), "stock:{query.sku}").wait(Duration::ZERO);
    let by_function = LockLayer::with_key(locks.clone(), |parts: &Parts| {
        let query = Query::<HashMap<String, String>>::try_from_uri(&parts.uri).unwrap();
        Ok(format!("stock:{}", encode_value(&query["sku"])))
    });
    let app = Router::new()
        .route("/template/{sku}", on_post(template))
        .route("/key/{sku}", on_post(key))
        .route("/layer", on_post(async || ()).route_layer(by_template))
        .route("/function", on_post(async || ()).route_layer(by_function.wait(Duration::ZERO)));
    let address = serve(app, &locks).await;
    for (value, in_url) in [("AB cd", "AB%20cd"), ("a/b", "a%2Fb"), ("ü:{%}", "%C3%BC:%7B%25%7D"), ("x", "x")] {
        let held = locks.lock(format!("stock:{}", encode_value(value))).acquire().await.unwrap();
        let paths = ["/template/", "/key/", "/layer?sku=", "/function?sku="].map(|path| format!("{path}{in_url}"));
        for path in &paths {
            assert_eq!(post(address, path).await.status, StatusCode::CONFLICT, "{path}");
        }
        held.release().await.unwrap();
        for path in &paths {
            assert_eq!(post(address, path).await.status, StatusCode::OK, "{path}");
        }
    }
}

#[tokio::test]
async fn an_extractor_without_a_lock_is_a_server_error() {
    let locks = manager(&nodes());
    let app = Router::new()
        .route("/", on_post(resource))
        .route("/maybe", on_post(async |lease: Option<Lease>| lease.is_none().to_string()));
    let address = serve(app, &locks).await;
    let response = post(address, "/").await;
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.problem()["type"], "about:blank");
    assert_eq!(post(address, "/maybe").await.text(), "true");
}

#[tokio::test]
async fn on_error_builds_the_response_of_the_layer() {
    let locks = manager(&nodes());
    let layer = LockLayer::new(locks.clone(), "r")
        .wait(Duration::ZERO)
        .on_error(|error| (StatusCode::IM_A_TEAPOT, error.resource().to_owned()));
    let address = serve(Router::new().route("/", on_post(async || ())).route_layer(layer), &locks).await;
    let _held = locks.lock("r").acquire().await.unwrap();
    let response = post(address, "/").await;
    assert_eq!((response.status, response.text()), (StatusCode::IM_A_TEAPOT, "r"));
}

#[tokio::test]
async fn a_wrong_method_does_not_wait_for_the_lock_of_a_method_router() {
    let locks = manager(&nodes());
    let layer = LockLayer::new(locks.clone(), "r").wait(PATIENCE * 2);
    let address = serve(Router::new().route("/", on_post(async || ()).route_layer(layer)), &locks).await;
    let _held = locks.lock("r").acquire().await.unwrap();
    let get = Request::get("/").header(header::HOST, "localhost").body(Body::empty()).unwrap();
    assert_eq!(send(address, get).await.unwrap().status, StatusCode::METHOD_NOT_ALLOWED);
}

/// A service that panics if it is called before it is ready, and that fails with its own error type.
#[derive(Default)]
struct Strict {
    ready: bool,
    calls: Counter,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: self.calls.clone() }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = String;
    type Future = std::future::Ready<Result<Response<Body>, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(self.ready, "called before it was ready");
        self.ready = false;
        self.calls.add();
        std::future::ready(Err("its own error".to_owned()))
    }
}

#[tokio::test]
async fn the_layer_calls_the_readied_service_and_keeps_its_error() {
    let nodes = nodes();
    let strict = Strict::default();
    let mut service = LockLayer::new(manager(&nodes), "r").layer(strict.clone());
    for call in 1..=3 {
        let ready = ServiceExt::<Request<Body>>::ready(&mut service).await.unwrap();
        let result = ready.call(Request::new(Body::empty())).await;
        assert_eq!(result.unwrap_err(), "its own error");
        assert_eq!(strict.calls.get(), call);
    }
    eventually_async("the lock is free", async || is_free(&nodes, "r").await).await;
}

#[tokio::test]
async fn the_layer_preserves_the_request() {
    async fn handler(
        Path(sku): Path<String>,
        headers: HeaderMap,
        Extension(locks): Extension<LockManager>,
        body: String,
    ) -> String {
        assert_eq!(locks.held().len(), 1);
        format!("{sku} {} {body}", headers["x-other"].to_str().unwrap())
    }
    let locks = manager(&nodes());
    let layer = LockLayer::new(locks.clone(), "stock:{sku}");
    let address = serve(Router::new().route("/{sku}", on_post(handler)).route_layer(layer), &locks).await;
    let request = request("/a").header("x-other", "b").body(Body::from("c")).unwrap();
    assert_eq!(send(address, request).await.unwrap().text(), "a b c");
}
