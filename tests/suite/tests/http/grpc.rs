//! `LockLayer` in front of a server of tonic.

use std::time::Duration;

use lock_axum::{LockLayer, LockManager};
use lock_support::eventually;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// The number of `Aborted`, which tells a client that it may try again.
const ABORTED: &str = "10";

/// Serves the health service of tonic, each method of it for one caller at a time.
async fn served(locks: &LockManager) -> (HealthClient<Channel>, JoinHandle<()>) {
    let layer = LockLayer::with_key(locks.clone(), |parts| Ok(format!("grpc:{}", parts.uri.path())))
        .wait(Duration::ZERO)
        .stream_request_body()
        .hold_until_body_end()
        .on_error(|_| [("content-type", "application/grpc"), ("grpc-status", ABORTED)]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    let serving = tokio::spawn(async move {
        server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    });
    (HealthClient::new(Channel::from_shared(url).unwrap().connect().await.unwrap()), serving)
}

#[tokio::test]
async fn a_server_of_tonic_answers_under_the_lock_and_says_aborted_when_it_is_busy() {
    let locks = LockManager::in_memory();
    let (mut client, serving) = served(&locks).await;
    let request = HealthCheckRequest::default;
    // The trailers arrive: without them, a unary call fails.
    client.check(request()).await.unwrap();
    eventually("the lock of the call is free", || locks.held().is_empty()).await;

    let mut watched = client.watch(request()).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some());
    assert_eq!(locks.held()[0].resource(), "grpc:/grpc.health.v1.Health/Watch");
    assert_eq!(client.watch(request()).await.unwrap_err().code(), Code::Aborted);
    client.check(request()).await.unwrap();

    drop(watched);
    eventually("the lock of the stream is free", || locks.held().is_empty()).await;
    client.watch(request()).await.unwrap();
    serving.abort();
}
