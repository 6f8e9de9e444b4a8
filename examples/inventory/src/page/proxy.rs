//! Sends the requests for the shop to the instances in turn, as a load balancer would.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{StatusCode, Uri, header, uri::PathAndQuery},
    response::{IntoResponse, Response},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

/// The instances behind the public listener.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    client: Client<HttpConnector, Body>,
    instances: Arc<[SocketAddr]>,
    next: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn new(instances: &[SocketAddr]) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, instances: instances.into(), next: Arc::default() }
    }
}

/// Forwards a request. If the client hangs up, so does this one.
pub(crate) async fn forward(State(proxy): State<Proxy>, mut request: Request) -> Response {
    let turn = proxy.next.fetch_add(1, Ordering::Relaxed);
    let instance = proxy.instances[turn % proxy.instances.len()];
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let Ok(uri) = format!("http://{instance}{path}").parse::<Uri>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = uri;
    // These are about one connection, and there are two.
    for name in [header::CONNECTION, header::UPGRADE, header::HOST] {
        request.headers_mut().remove(name);
    }
    match proxy.client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            tracing::warn!(%error, %instance, "the instance did not answer");
            StatusCode::BAD_GATEWAY.into_response()
        }
    }
}
