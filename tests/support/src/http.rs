//! A service on a real TCP listener, over in-memory masters, and a client for it.

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

/// Beyond this, whatever is awaited does not come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Five masters.
pub fn masters() -> Vec<MemoryNode> {
    (0..5).map(|_| MemoryNode::new()).collect()
}

/// A manager over masters that others may use, too.
pub fn manager(masters: &[MemoryNode]) -> LockManager {
    LockManager::builder().nodes(masters.to_vec()).connect_lazy().unwrap()
}

/// Serves a router with a manager in its extensions. The server ends with the runtime of the test.
pub async fn serve(app: Router, locks: &LockManager) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.layer(Extension(locks.clone()));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The answer to a request.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The problem document, checked for what all of them have in common.
    pub fn problem(&self) -> Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{}", self.text());
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["title"].is_string(), "{problem}");
        problem
    }

    /// The last part of the problem's type.
    pub fn kind(&self) -> String {
        let problem = self.problem();
        problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }

    /// The header `Retry-After`, in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().parse().unwrap())
    }
}

/// Sends one request over a connection of its own.
///
/// # Errors
///
/// If the connection ends without an answer, or in the middle of it.
pub async fn send(address: SocketAddr, request: Request<Body>) -> Result<Answer, hyper::Error> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    };
    timeout(PATIENCE, exchange).await.expect("no answer")
}

/// Sends a POST without a body.
pub async fn post(address: SocketAddr, path: &str) -> Answer {
    send(address, request(path).body(Body::empty()).unwrap()).await.unwrap()
}

/// The beginnings of a POST.
pub fn request(path: &str) -> axum::http::request::Builder {
    Request::post(path).header(header::HOST, "localhost")
}

/// Whether a lock can be had right now, by a stranger.
pub async fn is_free(masters: &[MemoryNode], resource: &str) -> bool {
    match manager(masters).lock(resource).try_acquire().await {
        Ok(guard) => guard.release().await.unwrap(),
        Err(_) => false,
    }
}

/// Counts what went on inside a handler, from outside.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The count.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until the count is reached.
    pub async fn reaches(&self, count: usize) {
        eventually_async("the counter is there", async || self.get() >= count).await;
    }

    /// Counts when it is dropped.
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
