//! `LockLayer` among other tower layers, in one `ServiceBuilder`.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use axum::routing::post as on_post;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use lock_axum::{FencingToken, LockLayer};
use lock_support::eventually;
use lock_support::http::{manager, nodes, post, request, send, serve};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_http::limit::RequestBodyLimitLayer;

async fn length(token: FencingToken, body: Bytes) -> String {
    assert!(token.get() > 0);
    body.len().to_string()
}

#[tokio::test]
async fn a_layer_that_replaces_the_type_of_the_body_can_stand_outside() {
    let locks = manager(&nodes());
    let layers = ServiceBuilder::new().layer(RequestBodyLimitLayer::new(10)).layer(LockLayer::new(locks.clone(), "r"));
    let address = serve(Router::new().route("/", on_post(length).layer(layers)), &locks).await;
    let upload = |body: Body| send(address, request("/").body(body).unwrap());
    assert_eq!(upload(Body::from("0123456789")).await.unwrap().text(), "10");
    let chunks = ["01234", "56789", "x"].map(Ok::<_, Infallible>);
    let response = upload(Body::from_stream(stream::iter(chunks))).await.unwrap();
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE, "the limit of the layer outside is not a 400");
}

#[tokio::test]
async fn no_type_has_to_be_named_in_a_router_or_a_service_builder() {
    let locks = manager(&nodes());
    let layer = || LockLayer::new(locks.clone(), "r");
    let routers = [
        Router::new().route("/", on_post(length).route_layer(layer())),
        Router::new().route("/", on_post(length).layer(ServiceBuilder::new().layer(layer()))),
        Router::new().route("/", on_post(length)).route_layer(layer()),
        Router::new().route("/", on_post(length)).layer(ServiceBuilder::new().layer(layer())),
    ];
    for router in routers {
        assert_eq!(post(serve(router, &locks).await, "/").await.text(), "0");
    }

    let service = ServiceBuilder::new().layer(layer()).service(service_fn(async |request: Request<Body>| {
        assert!(request.extensions().get::<FencingToken>().is_some());
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    assert_eq!(service.clone().oneshot(Request::new(Body::empty())).await.unwrap().status(), StatusCode::OK);
    assert_eq!(service.oneshot(Request::new(Body::from("text"))).await.unwrap().status(), StatusCode::OK);
}

/// A gRPC server is such a service: its messages are streamed, its status comes in the trailers, and its errors have the status 200.
#[tokio::test]
async fn a_service_without_axums_router_keeps_its_trailers_and_has_errors_of_its_own_kind() {
    let locks = manager(&nodes());
    let layer = LockLayer::with_key(locks.clone(), |parts| Ok(format!("grpc:{}", parts.uri.path())))
        .wait(std::time::Duration::ZERO)
        .stream_request_body()
        .hold_until_body_end()
        .on_error(|_| [("content-type", "application/grpc"), ("grpc-status", "10")]);
    let service = ServiceBuilder::new().layer(layer).service(service_fn(async |request: Request<Body>| {
        assert!(request.extensions().get::<FencingToken>().is_some());
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
        let frames = [Frame::data(Bytes::from_static(b"message")), Frame::trailers(trailers)].map(Ok::<_, Infallible>);
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    }));
    let call = || service.clone().oneshot(Request::post("/shop.Stock/Deduct").body(Body::empty()).unwrap());

    let response = call().await.unwrap();
    let busy = call().await.unwrap();
    assert_eq!((busy.status(), &busy.headers()["grpc-status"]), (StatusCode::OK, &HeaderValue::from_static("10")));
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(body.to_bytes(), "message");
    eventually("the lock is free", || locks.held().is_empty()).await;
    assert!(!call().await.unwrap().headers().contains_key("grpc-status"));
}
