//! A service on a real TCP listener, with locks on in-memory nodes, and a client for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lock_core::{LockManager, MemoryNode};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::eventually_async;

/// How long a test waits for something before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Five nodes.
pub fn nodes() -> Vec<MemoryNode> {
    (0..5).map(|_| MemoryNode::new()).collect()
}

/// A manager over nodes that other managers may use, too.
pub fn manager(nodes: &[MemoryNode]) -> LockManager {
    LockManager::builder().nodes(nodes.to_vec()).connect_lazy().unwrap()
}

/// Serves a router with a manager in its extensions. The server ends with the runtime of the test.
pub async fn serve(app: Router, locks: &LockManager) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.layer(Extension(locks.clone()));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The response to a request.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Response {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The problem document. Checks what all problem documents have in common.
    pub fn problem(&self) -> Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{}", self.text());
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["title"].is_string(), "{problem}");
        problem
    }

    /// The last part of the problem document's type.
    pub fn kind(&self) -> String {
        let problem = self.problem();
        problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }

    /// The header `Retry-After`, in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().parse().unwrap())
    }
}

/// Sends a request over a new connection.
///
/// # Errors
///
/// If the connection ends before the whole response has arrived.
pub async fn send(address: SocketAddr, request: Request<Body>) -> Result<Response, hyper::Error> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response { status: parts.status, headers: parts.headers, body })
    };
    timeout(PATIENCE, exchange).await.expect("a response in time")
}

/// Sends a POST without a body.
pub async fn post(address: SocketAddr, path: &str) -> Response {
    send(address, request(path).body(Body::empty()).unwrap()).await.unwrap()
}

/// A builder of POST requests.
pub fn request(path: &str) -> axum::http::request::Builder {
    Request::post(path).header(header::HOST, "localhost")
}

/// Whether another manager can acquire a lock right now.
pub async fn is_free(nodes: &[MemoryNode], resource: &str) -> bool {
    match manager(nodes).lock(resource).try_acquire().await {
        Ok(guard) => guard.release().await.unwrap(),
        Err(_) => false,
    }
}

/// Counts events inside a handler; clones share the count.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The count.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until the count is at least `count`.
    pub async fn reaches(&self, count: usize) {
        eventually_async("the count is reached", async || self.get() >= count).await;
    }

    /// A value that adds one when it is dropped.
    pub fn on_drop(&self) -> impl Drop + Send + use<> {
        struct OnDrop(Counter);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.add();
            }
        }
        OnDrop(self.clone())
    }
}
