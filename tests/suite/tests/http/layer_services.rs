//! `LockLayer` among other tower layers, in one `ServiceBuilder`.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode};
use axum::routing::post as on_post;
use futures_util::stream;
use lock_axum::{FencingToken, LockLayer};
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
