//! What is sent to a service, and what its page is told.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Bytes,
    http::{Method, Request, Response, StatusCode},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{client::legacy, rt::TokioExecutor};
use serde_json::Value;
use tokio::time::timeout;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A client of whatever listens at an address.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Client {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Response<Incoming> {
        let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client.request(request.body(Full::from(body)).unwrap()).await.unwrap()
    }

    /// The status and the JSON of an answer. `Null` if there is none.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: &'static str) -> (StatusCode, Value) {
        let response = self.send(method, path, &[("content-type", "application/json")], body).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) async fn deduct(&self, sku: &str, body: &'static str) -> (StatusCode, Value) {
        self.ask(Method::POST, &format!("/stock/{sku}/deduct"), body).await
    }

    /// Buys one unit of the product that the page sells.
    pub(crate) async fn buy(&self) -> StatusCode {
        self.deduct("apple", r#"{"quantity":1}"#).await.0
    }

    /// Presses a button.
    pub(crate) async fn press(&self, button: &str) -> StatusCode {
        self.ask(Method::POST, &format!("/control/{button}"), "").await.0
    }

    pub(crate) async fn open_page(&self) -> Page {
        let response = self.send(Method::GET, "/events", &[], "").await;
        assert_eq!(response.status(), StatusCode::OK);
        Page { body: response.into_body(), received: Vec::new() }
    }

    /// Waits for a state of the page.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut page = self.open_page().await;
        let found = async {
            loop {
                let state = page.next().await.unwrap();
                if wanted(&state) {
                    return state;
                }
            }
        };
        timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("{what} does not happen"))
    }

    /// Waits until the last buyer has left.
    pub(crate) async fn until_buyers_left(&self) -> Value {
        let over = |state: &Value| state["rush"]["running"].is_null() && state["rush"]["last"].is_object();
        self.until("the end of the rush", over).await
    }
}

/// An open stream of states.
pub(crate) struct Page {
    body: Incoming,
    /// Bytes, because a frame may end within a character.
    received: Vec<u8>,
}

impl Page {
    /// The next state; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.received.windows(2).position(|bytes| bytes == b"\n\n") {
                let event: Vec<u8> = self.received.drain(..end + 2).collect();
                match event.strip_prefix(b"data: ").map(|data| serde_json::from_slice(data).unwrap()) {
                    Some(state) => return Some(state),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap();
            if let Some(data) = frame.data_ref() {
                self.received.extend_from_slice(data);
            }
        }
    }
}

/// Whether the feed of a state has an entry of this kind.
pub(crate) fn happened(state: &Value, kind: &str) -> bool {
    state["feed"].as_array().unwrap().iter().any(|entry| entry["kind"] == kind)
}
