//! Calls of other services.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a service may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a request about an order, with a header. Returns the status: 502 if there is no answer, and 504 if there is none in
/// time.
pub(crate) async fn call(method: Method, service: &str, order: u64, (name, value): (&str, HeaderValue)) -> StatusCode {
    let exchange = async {
        let request = Request::builder().method(method).uri(format!("/{order}")).header(header::HOST, service);
        let request = request.header(name, value).body(Body::empty())?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(TcpStream::connect(service).await?)).await?;
        tokio::spawn(connection);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(sender.send_request(request).await?.status())
    };
    match timeout(PATIENCE, exchange).await {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            tracing::warn!(service, %error, "no answer");
            StatusCode::BAD_GATEWAY
        }
        Err(_) => StatusCode::GATEWAY_TIMEOUT,
    }
}
