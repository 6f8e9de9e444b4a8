//! A service under test, its database, and what its page is told.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Bytes,
    http::{Method, Request, Response, StatusCode},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use inventory::{RunError, ServeConfig, serve};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    directory: TempDir,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// What the database says of the product that the page sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) stock: i64,
    pub(crate) orders: i64,
    pub(crate) oversold: i64,
}

impl Books {
    /// What a state of the page says.
    pub(crate) fn of(state: &Value) -> Self {
        let number = |name: &str| state[name].as_i64().unwrap();
        Self { stock: number("stock"), orders: number("orders"), oversold: number("oversold") }
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with_masters(Vec::new()).await
    }

    pub(crate) async fn with_masters(redis: Vec<String>) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), redis, tempfile::tempdir().unwrap()).await
    }

    /// A service that other machines can reach, too.
    pub(crate) async fn on_every_interface() -> Self {
        Self::at(SocketAddr::from(([0, 0, 0, 0], 0)), Vec::new(), tempfile::tempdir().unwrap()).await
    }

    async fn at(listen: SocketAddr, redis: Vec<String>, directory: TempDir) -> Self {
        let config = ServeConfig {
            listen,
            redis,
            prefix: "inventory:".to_owned(),
            database: Some(directory.path().join("shop.sqlite")),
            public: false,
        };
        let stop = CancellationToken::new();
        let (listening, address) = oneshot::channel();
        let task = tokio::spawn(serve(config, stop.clone().cancelled_owned(), |address| {
            listening.send(address).unwrap();
        }));
        Self { address: address.await.unwrap(), directory, stop, task }
    }

    /// Stops, calls `meanwhile`, and starts again with the same address and database.
    pub(crate) async fn restart(self, meanwhile: impl FnOnce()) -> Self {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap().unwrap();
        meanwhile();
        Self::at(self.address, Vec::new(), self.directory).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Response<Incoming> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
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
        Page { body: response.into_body(), text: String::new() }
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

    pub(crate) fn books(&self) -> Books {
        let db = Connection::open(self.directory.path().join("shop.sqlite")).unwrap();
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        let query = "SELECT quantity, (SELECT count(*) FROM orders WHERE sku = 'apple') FROM stock WHERE sku = 'apple'";
        let (stock, orders): (i64, i64) = db.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        Books { stock, orders, oversold: (orders + stock - 100).max(0) }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap().unwrap();
    }
}

/// An open stream of states.
pub(crate) struct Page {
    body: Incoming,
    text: String,
}

impl Page {
    /// The next state; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                match data {
                    Some(state) => return Some(state),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap();
            if let Some(data) = frame.data_ref() {
                self.text.push_str(std::str::from_utf8(data).unwrap());
            }
        }
    }
}

/// Whether the feed of a state has an entry of this kind.
pub(crate) fn happened(state: &Value, kind: &str) -> bool {
    state["feed"].as_array().unwrap().iter().any(|entry| entry["kind"] == kind)
}
